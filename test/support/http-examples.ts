import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { format, type FormatConfig } from 'oxfmt'

export async function formatted(name: string, text: string): Promise<string> {
  const root = resolve(import.meta.dirname, '../..')
  const config = JSON.parse(await readFile(`${root}/.oxfmtrc.json`, 'utf8')) as FormatConfig
  const { code, errors } = await format(name, text, config)
  if (errors.length > 0) throw new Error(JSON.stringify(errors))
  return code
}
