import { readFileSync } from 'node:fs'
import type { OperationExample } from './example.js'

/** Requests to a handler and its responses, in order. `npm run generate` records them again. */
export const examples = JSON.parse(
  readFileSync(new URL('examples.json', import.meta.url), 'utf8'),
) as readonly OperationExample[]
