import { readFileSync } from 'node:fs'
import type { OperationExample } from './example.js'

/** What a handler was asked and answered, in this order. `npm run generate` asks it again. */
export const examples = JSON.parse(
  readFileSync(new URL('examples.json', import.meta.url), 'utf8'),
) as readonly OperationExample[]
