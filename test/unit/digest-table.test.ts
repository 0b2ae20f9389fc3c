import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { DigestCache } from '../../src/engine/base/digest-cache.js'
import { DigestSet } from '../../src/engine/base/digest-set.js'
import { DigestTable } from '../../src/engine/base/digest-table.js'
import { limits } from '../../src/engine/base/limits.js'

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
/** The digests of the numbers from 0 on. */
const digests = Array.from({ length: limits.exactDigests + 50_000 }, (_, i) => digest(`${i}`))

test('a digest table finds exactly the added digests with their records', () => {
  const table = new DigestTable(4)
  const count = 20_000
  const numbers = Array.from({ length: count }, (_, i) => i)
  const known = numbers.filter((i) => {
    const isKnown = table.has(digest(`${i}`))
    table.add(digest(`${i}`))!.writeUInt32LE(i)
    return isKnown
  })
  expect(known).toEqual([])
  expect(table.size).toBe(count)
  expect(numbers.filter((i) => table.get(digest(`${i}`))?.readUInt32LE() !== i)).toEqual([])
  expect(numbers.filter((i) => table.add(digest(`${i}`)) !== undefined)).toEqual([])
  expect(numbers.filter((i) => table.has(digest(`other ${i}`)))).toEqual([])
  expect(table.size).toBe(count)
})

test('a digest table distinguishes digests with a common prefix', () => {
  const table = new DigestTable()
  const digests = Array.from({ length: 100 }, (_, i) => `${'0'.repeat(38)}${i.toString(16).padStart(2, '0')}`)
  for (const one of digests) expect(table.add(one)).toBeDefined()
  for (const one of digests) expect(table.has(one)).toBe(true)
  expect(table.has('f'.repeat(40))).toBe(false)
})

test('a digest set recognizes each of many digests with almost no false positives', () => {
  const set = new DigestSet({ filterBytes: 2 ** 20 })
  const count = digests.length
  let foundEarly = -1
  for (const [i, one] of digests.entries()) {
    // The set is exact up to this size.
    if (i === limits.exactDigests - 1) foundEarly = digests.slice(i).filter((other) => set.has(other)).length
    set.add(one)
    set.add(one)
  }
  expect(foundEarly).toBe(0)
  expect(set.size).toBeGreaterThan(count * 0.99)
  expect(set.size).toBeLessThanOrEqual(count)
  for (const one of digests) if (!set.has(one.slice(0, 24))) throw new Error(`${one} is missing`)
  const wrong = (salted: DigestSet): number => {
    let found = 0
    for (let i = 0; i < 20_000; i++) if (salted.has(digest(`other ${i}`))) found++
    return found
  }
  // 46 bits per digest: 20,000 others have no false positives, except by bad luck.
  expect(wrong(set)).toBeLessThan(20)
})

test('digest sets with different salts have different false positives', () => {
  const others = Array.from({ length: 1000 }, (_, i) => digest(`other ${i}`))
  const foundWith = (salt: number): Set<string> => {
    const set = new DigestSet({ filterBytes: 2 ** 16, salt })
    for (const one of digests.slice(0, limits.exactDigests)) set.add(one)
    return new Set(others.filter((other) => set.has(other)))
  }
  const [one, two] = [foundWith(12_345), foundWith(987_654_321)]
  expect(one.size).toBeGreaterThan(100)
  expect(two.size).toBeGreaterThan(100)
  expect([...one].filter((found) => two.has(found)).length).toBeLessThan(Math.min(one.size, two.size))
})

test('a digest cache keeps nearly all digests while it has room, and grows for them', () => {
  const cache = new DigestCache(16_384)
  const some = digests.slice(0, 8000)
  expect(some.filter((one) => !cache.add(one))).toEqual([])
  expect(some.filter((one) => cache.has(one)).length).toBeGreaterThan(7400)
  expect(some.filter((one) => cache.has(digest(one)))).toEqual([])
})

test('a digest cache forgets some digests but has no false positives', () => {
  const cache = new DigestCache(1024)
  const some = digests.slice(0, 5000)
  let known = 0
  const isWrong = (one: string): boolean => cache.has(one) || !cache.add(one) || cache.add(one)
  expect(some.filter(isWrong)).toEqual([])
  for (const one of some) if (cache.has(one)) known++
  expect(known).toBeGreaterThan(500)
  expect(known).toBeLessThanOrEqual(1024)
  // Digests of one group that differ only in their last digit.
  const alike = Array.from({ length: 4 }, (_, i) => `${'a'.repeat(39)}${i}`)
  for (const one of alike) expect(cache.add(one)).toBe(true)
  for (const one of alike) expect(cache.has(one)).toBe(true)
  expect(cache.has(`${'a'.repeat(39)}9`)).toBe(false)
})

test('a digest table distinguishes digests that differ in any one word', () => {
  const words = Array.from({ length: 5 }, (_, i) => `${i + 1}`.repeat(8))
  // The first two digits of the first word select a part of a table, so the end of that word is changed.
  const others = words.map((word, i) => words.with(i, `${word.slice(0, 7)}0`).join(''))
  const table = new DigestTable()
  const cache = new DigestCache(4)
  const known = words.join('')
  table.add(known)
  cache.add(known)
  for (const other of others) {
    expect([table.has(other), cache.has(other)]).toEqual([false, false])
    expect(table.add(other)).toBeDefined()
  }
  expect([table.has(known), cache.has(known), table.size]).toEqual([true, true, 6])
})
