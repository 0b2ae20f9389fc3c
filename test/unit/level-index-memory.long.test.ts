import { expect, test } from 'vitest'
import { LiveIndex } from '../../src/adapters/level/index/live-index.js'
import { memoryIndex } from '../../src/adapters/level/index/memory-index.js'
import { PageIndex } from '../../src/adapters/level/index/page-index.js'
import { entryKind } from '../../src/adapters/level/log/segment-format.js'
import { collectGarbage } from '../support/garbage.js'

const storeId = '00000000-0000-4000-8000-000000000000'
/** Keys with a long common prefix: a page holds several hundred of them. */
const entries = 160_000
const perFlush = 80_000
/** With decoded pages in its cache the index would take 24 MB here. */
const mostBytes = 8 * 2 ** 20

function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

function keyOf(i: number): string {
  return `esession-of-one-long-history${i.toString(36).padStart(8, '0')}`
}

test('keeps pages in memory as bytes, however many entries a page has', async () => {
  const place = { segment: 1, offset: 64, commit: 0, chain: 0 }
  const index = new LiveIndex(PageIndex.empty(memoryIndex(), { storeId, ...place }), place)
  for (let from = 0; from < entries; from += perFlush) {
    const frame = Array.from({ length: perFlush }, (_, i) => {
      return { kind: entryKind.event, key: keyOf(from + i), at: (from + i) * 100, length: 100 }
    })
    index.apply(frame, { ...place, offset: (from + perFlush) * 100 }, 0)
    const options = { sync: true, mergeEntries: 0, hasSegment: () => true }
    await index.flush(options, () => Promise.resolve())
  }
  const before = heapUsed()
  for (let i = 0; i < entries; i += 100) {
    expect(index.get(keyOf(i))).toEqual({ segment: 1, offset: i * 100, length: 100, deleted: false })
  }
  expect(heapUsed() - before).toBeLessThan(mostBytes)
  // Keeps the index reachable until here.
  expect(index.range(keyOf(0), keyOf(entries), entries, false)).toHaveLength(entries)
})
