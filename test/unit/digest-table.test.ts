import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { DigestTable } from '../../src/engine/base/digest-table.js'

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

test('a table of digests finds what was added, each with its record, and nothing else', () => {
  const table = new DigestTable(4)
  const count = 20_000
  for (let i = 0; i < count; i++) {
    expect(table.has(digest(`${i}`))).toBe(false)
    table.add(digest(`${i}`))!.writeUInt32LE(i)
  }
  expect(table.size).toBe(count)
  for (let i = 0; i < count; i++) {
    expect(table.get(digest(`${i}`))?.readUInt32LE()).toBe(i)
    expect(table.add(digest(`${i}`))).toBe(undefined)
    expect(table.has(digest(`other ${i}`))).toBe(false)
  }
  expect(table.size).toBe(count)
})

test('digests that begin alike are told apart', () => {
  const table = new DigestTable()
  const digests = Array.from({ length: 100 }, (_, i) => `${'0'.repeat(38)}${i.toString(16).padStart(2, '0')}`)
  for (const one of digests) expect(table.add(one)).toBeDefined()
  for (const one of digests) expect(table.has(one)).toBe(true)
  expect(table.has('f'.repeat(40))).toBe(false)
})
