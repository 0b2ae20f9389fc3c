import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  decodePage,
  encodePage,
  pageChecksum,
  StoredPage,
} from '../../src/adapters/level/index/index-page.js'
import type { Place } from '../../src/adapters/level/index/memtable.js'
import { addToPage } from '../../src/adapters/level/index/page-addition.js'
import { firstAtLeast } from '../../src/engine/base/ascending.js'
import { runs, seed } from '../support/seed.js'

/**
 * Few different characters, so that keys share prefixes and are prefixes of each other. The first byte of a place, its
 * segment, can be above or below each of them.
 */
const key = fc.string({
  unit: fc.constantFrom('\u0001', 'a', '\u007f', '\u00ff'),
  minLength: 1,
  maxLength: 12,
})
const keysOf = fc.uniqueArray(key, { maxLength: 200, size: 'max' }).map((keys) => keys.sort())

function placeOf(i: number): Place {
  return { segment: (i * 37) % 257, offset: i * 2 ** 33, length: i, deleted: i % 3 === 0 }
}

test(`a stored page returns its keys and places (FORKSPACE_SEED=${seed})`, () => {
  fc.assert(
    fc.property(
      keysOf,
      fc.array(key, { maxLength: 40 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 300 }),
      (keys, others, reverse, limit) => {
        const places = keys.map((_, i) => placeOf(i))
        const bytes = encodePage(5, { keys, places }, 0, keys.length)
        const checksum = pageChecksum(bytes)
        expect(decodePage(bytes, 5, checksum)).toEqual({ keys, places })
        const page = StoredPage.open(bytes, 5, checksum)!
        for (const [i, one] of keys.entries()) expect(page.get(one), one).toEqual(places[i])
        for (const other of others) {
          const at = keys.indexOf(other)
          expect(page.get(other), other).toEqual(at < 0 ? undefined : places[at])
        }
        for (const [i, from] of others.entries()) {
          const to = others[i + 1] ?? '\u00ff'.repeat(20)
          const within = keys
            .slice(firstAtLeast(keys, from), Math.max(firstAtLeast(keys, from), firstAtLeast(keys, to)))
            .map((one) => [one, places[keys.indexOf(one)]])
          const found: (readonly [string, Place])[] = []
          page.appendRange({ from, to, reverse }, found, limit)
          expect(found).toEqual((reverse ? within.reverse() : within).slice(0, limit))
        }
      },
    ),
    { seed, numRuns: runs(200) },
  )
})

test(`a page with added entries has the bytes of a new page with all of them (FORKSPACE_SEED=${seed})`, () => {
  fc.assert(
    fc.property(keysOf, keysOf, fc.nat(3), (oldKeys, keys, from) => {
      const old = { keys: oldKeys, places: oldKeys.map((_, i) => placeOf(i)) }
      const entries = { keys, places: keys.map((_, i) => ({ ...placeOf(i + 1000), deleted: false })) }
      const all = new Map<string, Place>()
      for (const { keys: some, places } of [
        old,
        { keys: keys.slice(from), places: entries.places.slice(from) },
      ])
        for (const [i, one] of some.entries()) all.set(one, places[i]!)
      const merged = [...all].sort(([a], [b]) => (a < b ? -1 : 1))
      const [mergedKeys, mergedPlaces] = [merged.map(([one]) => one), merged.map(([, place]) => place)]
      const expected = encodePage(6, { keys: mergedKeys, places: mergedPlaces }, 0, merged.length)

      const encoded = encodePage(5, old, 0, oldKeys.length)
      const addition = { entries, from: Math.min(from, keys.length), to: keys.length }
      const { bytes, replaced } = addToPage(encoded, 6, addition)
      expect(bytes.equals(expected)).toBe(true)
      const both = oldKeys.flatMap((one, i) => (keys.indexOf(one) >= from ? [old.places[i]] : []))
      expect(replaced).toEqual(both)
    }),
    { seed, numRuns: runs(2000) },
  )
})

test('entries can be added to a page of any size', () => {
  for (const length of [100, 1000, 10_000]) {
    const keys = Array.from({ length: 100 }, (_, i) => `${String(i).padStart(3, '0')}${'x'.repeat(length)}`)
    const page = { keys, places: keys.map((_, i) => placeOf(i)) }
    const old = { keys: keys.slice(1), places: page.places.slice(1) }
    const { bytes } = addToPage(encodePage(5, old, 0, 99), 6, { entries: page, from: 0, to: 1 })
    expect(bytes.equals(encodePage(6, page, 0, 100))).toBe(true)
  }
})

test('rejects bytes with another page number or checksum', () => {
  const keys = ['a', 'ab', 'b']
  const bytes = encodePage(5, { keys, places: keys.map((_, i) => placeOf(i)) }, 0, 3)
  const checksum = pageChecksum(bytes)
  expect(StoredPage.open(bytes, 6, checksum)).toBe(undefined)
  expect(StoredPage.open(bytes, 5, checksum + 1)).toBe(undefined)
  expect(StoredPage.open(bytes.subarray(0, 10), 5, checksum)).toBe(undefined)
  for (let i = 0; i < bytes.length; i++) {
    const damaged = Buffer.from(bytes)
    damaged[i]! ^= 1
    expect(StoredPage.open(damaged, 5, checksum), `byte ${i}`).toBe(undefined)
  }
})

test('finds no key in an entry that only ends like it', () => {
  const place = { segment: 1, offset: 2, length: 3, deleted: false }
  const value = encodePage(1, { keys: ['abc', 'd'], places: [place, place] }, 0, 2)
  const page = StoredPage.open(value, 1, pageChecksum(value))
  expect(['abc', 'd', 'abd', 'ad'].map((key) => page?.get(key))).toEqual([place, place, undefined, undefined])
})
