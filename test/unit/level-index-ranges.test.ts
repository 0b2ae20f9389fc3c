import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LiveIndex } from '../../src/adapters/level/index/live-index.js'
import { memoryIndex } from '../../src/adapters/level/index/memory-index.js'
import { PageIndex } from '../../src/adapters/level/index/page-index.js'
import { SortedKeys } from '../../src/adapters/level/index/sorted-keys.js'
import { entryKind, type EntryKind } from '../../src/adapters/level/log/segment-format.js'
import { runs, seed } from '../support/seed.js'

const place = { segment: 1, offset: 64, commit: 0, chain: 0 }
const storeId = '00000000-0000-4000-8000-000000000000'

const sessions = ['a', 'ab', 'b']
/** Keys of records and of events; the last eight characters of an event's key are its number. */
const key = fc.oneof(
  fc.integer({ min: 0, max: 40 }).map((i) => `r${i.toString(36)}`),
  fc
    .tuple(fc.constantFrom(...sessions), fc.integer({ min: 1, max: 20 }))
    .map(([session, seq]) => `e${session}${String(seq).padStart(8, '0')}`),
)
const step = fc.oneof(
  { weight: 20, arbitrary: fc.record({ put: key }) },
  { weight: 6, arbitrary: fc.record({ remove: key.filter((one) => one.startsWith('r')) }) },
  { weight: 2, arbitrary: fc.record({ removeSession: fc.constantFrom(...sessions) }) },
  { weight: 2, arbitrary: fc.record({ flush: fc.boolean() }) },
  {
    weight: 10,
    arbitrary: fc.record({
      from: key,
      to: key,
      limit: fc.integer({ min: 1, max: 30 }),
      reverse: fc.boolean(),
    }),
  },
)

test(`ranges return the newest entries in order, independent of flushes (FORKSPACE_SEED=${seed})`, async () => {
  const property = fc.asyncProperty(fc.array(step, { maxLength: 200, size: 'max' }), async (steps) => {
    const index = new LiveIndex(PageIndex.empty(memoryIndex(), { storeId, ...place }), place)
    const model = new Map<string, number>()
    type Range = (readonly [name: string, offset: number])[]
    const [found, expected]: [Range[], Range[]] = [[], []]
    let at = 64
    const apply = (kind: EntryKind, name: string): void => {
      index.apply([{ kind, key: name, at, length: 10 }], { ...place, offset: at + 10 }, 0)
      at += 10
    }
    for (const one of steps) {
      if ('put' in one) {
        model.set(one.put, at)
        apply(one.put.startsWith('e') ? entryKind.event : entryKind.put, one.put)
      } else if ('remove' in one) {
        model.delete(one.remove)
        apply(entryKind.delete, one.remove)
      } else if ('removeSession' in one) {
        const prefix = `e${one.removeSession}`
        for (const name of model.keys()) if (name.slice(0, -8) === prefix) model.delete(name)
        apply(entryKind.deleteEvents, prefix)
      } else if ('flush' in one) {
        const options = { sync: one.flush, mergeEntries: 60, hasSegment: () => true }
        await index.flush(options, () => Promise.resolve())
      } else {
        const { from, to, limit, reverse } = one
        if (from[0] !== to[0]) continue
        const inRange = [...model].filter(([name]) => name >= from && name < to).sort(byName)
        if (reverse) inRange.reverse()
        expected.push(inRange.slice(0, limit))
        found.push(index.range(from, to, limit, reverse).map(([name, { offset }]) => [name, offset] as const))
      }
    }
    expect(found).toEqual(expected)
  })
  await fc.assert(property, { seed, numRuns: runs(200) })
})

test('keys in many chunks are sorted, independent of their insertion order', () => {
  const keys = new SortedKeys()
  const names = Array.from({ length: 3000 }, (_, i) => ((i * 7919) % 3000).toString().padStart(4, '0'))
  for (const [i, name] of names.entries()) {
    keys.add(name)
    keys.add(name)
    if (i % 100 === 0) taken(keys, '', '~', false)
  }
  for (const name of names) keys.add(name)
  names.sort()
  expect(taken(keys, '', '~', false)).toEqual(names)
  expect(taken(keys, '', '~', true)).toEqual(names.toReversed())
  for (const [from, to] of [
    ['0255', '0258'],
    ['0000', '2999'],
    ['1023', '2049'],
    ['2998', '~'],
    ['', '0001'],
    ['~', '~~'],
    ['', '0000'],
  ] as const) {
    const expected = names.filter((name) => name >= from && name < to)
    expect(taken(keys, from, to, false)).toEqual(expected)
    expect(taken(keys, from, to, true)).toEqual(expected.toReversed())
  }
})

function byName([a]: readonly [string, number], [b]: readonly [string, number]): number {
  return a < b ? -1 : 1
}

function taken(keys: SortedKeys, from: string, to: string, reverse: boolean): string[] {
  const found: string[] = []
  for (const cursor = keys.range(from, to, reverse); cursor.key !== undefined; cursor.next())
    found.push(cursor.key)
  return found
}
