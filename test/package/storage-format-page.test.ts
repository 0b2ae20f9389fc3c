import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { keyPrefixes } from '../../src/engine/storage/keys.js'

test('the page of the storage format has the prefix of every kind of record', () => {
  const page = readFileSync(new URL('../../docs/storage-format.md', import.meta.url), 'utf8')
  const table = /<!-- keys:start -->\n([\s\S]*)\n<!-- keys:end -->/.exec(page)![1]!
  const documented = Array.from(table.matchAll(/^\| `(\w)`/gm), ([, prefix]) => prefix!)
  expect(documented).toHaveLength(new Set(documented).size)
  expect(new Set(documented)).toEqual(new Set<string>(Object.values(keyPrefixes)))
})
