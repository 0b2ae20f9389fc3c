import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { format, type FormatConfig } from 'oxfmt'
import type { OperationExample } from '../../src/adapters/http/openapi/example.js'

/** The module of the examples, as the formatter leaves it. */
export function sourceOf(examples: readonly OperationExample[]): Promise<string> {
  return formatted(
    'openapi-examples.ts',
    `import type { OperationExample } from './example.js'

/** What a handler was asked and answered, in this order: \`npm run openapi\` asks it again. */
export const examples: readonly OperationExample[] = ${JSON.stringify(examples, null, 2)}
`,
  )
}

export async function formatted(name: string, text: string): Promise<string> {
  const root = resolve(import.meta.dirname, '../..')
  const config = JSON.parse(await readFile(`${root}/.oxfmtrc.json`, 'utf8')) as FormatConfig
  const { code, errors } = await format(name, text, config)
  if (errors.length > 0) throw new Error(JSON.stringify(errors))
  return code
}
