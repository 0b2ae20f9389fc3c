import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { errorRegistry } from '../../src/index.js'

test('the page of errors lists every reason of the registry', () => {
  const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
  const table = /<!-- errors:start -->\n([\s\S]*)\n<!-- errors:end -->/.exec(page)![1]!
  const cells = (line: string): string[] =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('`', ''))
  const documented = table.trim().split('\n').slice(2).map(cells)
  const registered = Object.entries(errorRegistry).map(([reason, { code, errno, meaning }]) => [
    reason,
    code,
    errno ?? '',
    meaning.replaceAll('`', ''),
  ])
  expect(documented).toEqual(registered)
})
