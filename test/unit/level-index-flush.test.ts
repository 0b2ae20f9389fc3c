import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type {
  IndexDamage,
  IndexDatabase,
  IndexOperation,
} from '../../src/adapters/level/index/index-database.js'
import { openIndexFile } from '../../src/adapters/level/index/index-file.js'
import { LiveIndex } from '../../src/adapters/level/index/live-index.js'
import { memoryIndex } from '../../src/adapters/level/index/memory-index.js'
import { PageIndex } from '../../src/adapters/level/index/page-index.js'
import { encodeRoot, encodeTail } from '../../src/adapters/level/index/index-root.js'
import { Memtable } from '../../src/adapters/level/index/memtable.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { entryKind } from '../../src/adapters/level/log/segment-format.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { itemAt, present } from '../../src/engine/ports.js'
import { randomWords } from '../../src/adapters/testing/environment.js'
import { isLong, runs, seed } from '../support/seed.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

const storeId = '00000000-0000-4000-8000-000000000000'
const place = { segment: 1, offset: 64, commit: 0, chain: 0 }
/** The pages of these entries take about 3 MiB. */
const count = 60_000
const mebibyte = 2 ** 20

const keys = Array.from(
  { length: count },
  (_, i) => `b${createHash('sha256').update(`${i}`).digest().toString('latin1')}`,
)

/** A database that stores this many more batches and then fails. */
class CountedDatabase implements IndexDatabase {
  readonly #inner = memoryIndex()
  readonly keys = new Set<string>()
  /** The size in bytes of the values of each batch. */
  batches: number[] = []
  left = Number.POSITIVE_INFINITY

  getSync(key: string): Uint8Array | undefined {
    return this.#inner.getSync(key)
  }

  async batch(operations: readonly IndexOperation[], options: { readonly sync: boolean }): Promise<void> {
    if (this.left-- <= 0) throw new Error('the process ended')
    let bytes = 0
    for (const operation of operations) {
      if (operation.type === 'put') bytes += operation.value.length
      if (operation.type === 'put') this.keys.add(operation.key)
      else this.keys.delete(operation.key)
    }
    this.batches.push(bytes)
    await this.#inner.batch(operations, options)
  }

  damages(): AsyncIterable<IndexDamage> {
    return this.#inner.damages()
  }

  compact(): Promise<void> {
    return this.#inner.compact()
  }

  close(): Promise<void> {
    return this.#inner.close()
  }
}

function apply(index: LiveIndex, offset: number, changed = keys): void {
  const entries = changed.map((key) => ({ kind: entryKind.blob, key, at: 0, length: 100 }))
  index.apply(entries, { ...place, offset: offset + 100 }, offset)
}

function flush(index: LiveIndex): Promise<void> {
  return index.flush({ sync: true, mergeEntries: 0, hasSegment: () => true }, () => Promise.resolve())
}

/** The keys of the pages that the root references. */
function expectedKeys({ root }: PageIndex): string[] {
  const ids = [...root.pages.map(({ id }) => id), ...root.replaced]
  return ['root', ...ids.map(pageKey)].sort()
}

function pageKey(id: number): string {
  return `p${id.toString(36).padStart(10, '0')}`
}

function offsets(index: LiveIndex): Set<number | undefined> {
  return new Set(keys.map((key) => index.get(key)?.offset))
}

async function storedIndex(db: IndexDatabase, offset: number): Promise<void> {
  const index = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
  // Appending after the last page would take a single step.
  for (let from = 0; from < count; from += count / 4) {
    apply(index, offset, keys.slice(from, from + count / 4))
    await flush(index)
  }
}

test('a flush stores its pages in batches of about 1 MiB', async () => {
  const db = new CountedDatabase()
  await storedIndex(db, 100)
  const index = new LiveIndex(PageIndex.load(db)!, place)
  apply(index, 1000)
  db.batches = []
  await flush(index)
  expect(db.batches.length).toBeGreaterThanOrEqual(3)
  // The last batch also contains the root.
  expect(Math.max(...db.batches)).toBeLessThan(1.1 * mebibyte)
  expect(offsets(new LiveIndex(PageIndex.load(db)!, place))).toEqual(new Set([1000]))
})

test.runIf(isLong)(
  'a flush interrupted between batches keeps the old index intact, and the next one removes its pages',
  async () => {
    for (const batches of isLong ? [1, 2] : [2]) {
      const db = new CountedDatabase()
      await storedIndex(db, 100)
      const before = expectedKeys(PageIndex.load(db)!)
      const cut = new LiveIndex(PageIndex.load(db)!, place)
      apply(cut, 1000)
      db.left = batches
      await expect(flush(cut)).rejects.toThrow('the process ended')
      db.left = Number.POSITIVE_INFINITY
      expect(db.keys.size).toBeGreaterThan(before.length + 200 * batches)

      const next = new LiveIndex(PageIndex.load(db)!, place)
      expect(offsets(next)).toEqual(new Set([100]))
      const key = keys[0]!
      next.apply([{ kind: entryKind.blob, key, at: 0, length: 100 }], { ...place, offset: 2100 }, 2000)
      await flush(next)
      expect([...db.keys].sort()).toEqual(expectedKeys(next.pages))
      apply(next, 3000)
      await flush(next)
      expect(offsets(new LiveIndex(PageIndex.load(db)!, place))).toEqual(new Set([3000]))
      expect([...db.keys].sort()).toEqual(expectedKeys(next.pages))
    }
  },
)

test('small flushes go to the pages once 32 of them have been stored', async () => {
  const db = memoryIndex()
  const index = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
  const options = { sync: false, mergeEntries: count, hasSegment: () => true }
  const stored: number[] = []
  for (const [i, key] of keys.slice(0, 70).entries()) {
    apply(index, 1000 * (i + 1), [key])
    await index.flush(options, () => Promise.resolve())
    stored.push(index.pages.tail.deltas.length)
  }
  expect(Math.max(...stored)).toBe(32)
  const loaded = PageIndex.load(db)!
  expect(loaded.tail.deltas.length).toBeLessThan(32)
  const places = keys.slice(0, 70).map((key) => new LiveIndex(loaded, place).get(key)?.offset)
  expect(places).toEqual(places.map((_, i) => 1000 * (i + 1)))
})

test('a store that closes leaves few entries outside of the pages', async () => {
  const directory = await mkdtemp(join(temporaryDirectory(), 'level-index-flush-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  for (const [entries, left] of [
    [levelLimits.openedEntries * 2, 0],
    [10, 10],
  ] as const) {
    const store = await openLevelStore(directory, { durability: 'relaxed' })
    await store.commit({
      put: Array.from({ length: entries }, (_, i): [string, string] => [`k${entries}-${i}`, 'x']),
    })
    await store.close()
    const db = await openIndexFile(nodeDisk, join(directory, 'index'), { reset: false })
    expect(PageIndex.load(db)?.deltas.size).toBe(left)
    await db.close()
  }
})

test('an index ignores a tail of another root and uses its own', async () => {
  const db = memoryIndex()
  const first = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
  apply(first, 100, keys.slice(0, 1))
  await flush(first)
  const entries = new Memtable()
  entries.set(keys[1]!, { segment: 1, offset: 500, length: 100, deleted: false })
  const end = { ...place, offset: 600, commit: 1, chain: 7 }
  await first.pages.storeDelta(entries, end)
  const own = PageIndex.load(db)!
  expect([own.tail.offset, own.deltas.get(keys[1]!)?.offset]).toEqual([600, 500])

  const root = { ...own.root, nextPage: own.root.nextPage + 1 }
  await db.batch([{ type: 'put', key: 'root', value: encodeRoot(root) }], { sync: true })
  const other = PageIndex.load(db)!
  expect([other.tail.offset, other.deltas.get(keys[1]!)]).toEqual([root.offset, undefined])
})

test('an index rejects a malformed root and ignores a malformed tail', async () => {
  const db = memoryIndex()
  const first = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
  apply(first, 100, keys.slice(0, 1))
  await flush(first)
  const entries = new Memtable()
  entries.set(keys[1]!, { segment: 1, offset: 500, length: 100, deleted: false })
  await first.pages.storeDelta(entries, { ...place, offset: 600, commit: 1, chain: 7 })
  const { root, tail } = PageIndex.load(db)!
  const put = (key: string, value: Uint8Array): Promise<void> =>
    db.batch([{ type: 'put', key, value }], { sync: true })
  const decoded = (bytes: Buffer): Record<string, unknown> =>
    JSON.parse(bytes.toString('utf8', 4)) as Record<string, unknown>

  const wholeTail = encodeTail(tail)
  for (const change of [{ deltas: {} }, { deltas: [{ id: 1 }] }, { offset: '600' }, { nextPage: null }]) {
    await put('tail', checkedText(JSON.stringify({ ...decoded(wholeTail), ...change })))
    expect(PageIndex.load(db)!.tail.offset, JSON.stringify(change)).toBe(root.offset)
  }
  await put('tail', checkedText('no json'))
  expect(PageIndex.load(db)!.tail.offset).toBe(root.offset)

  const wholeRoot = encodeRoot(root)
  for (const change of [
    { storeId: 1 },
    { uses: {} },
    { uses: [1, 2] },
    { uses: ['1', 2, 3] },
    { pages: [['a', 1, 2]] },
    { pages: ['a', 1] },
    { pages: [1, 'a', 2] },
    { replaced: [null] },
    { segment: -1 },
  ]) {
    await put('root', checkedText(JSON.stringify({ ...decoded(wholeRoot), ...change })))
    expect(PageIndex.load(db), JSON.stringify(change)).toBeUndefined()
  }
  await put('root', checkedText('no json'))
  expect(PageIndex.load(db)).toBeUndefined()
})

/** Keys of events as a store has them: their last eight characters are the number. */
function eventKeys(session: string, events: number): string[] {
  return Array.from({ length: events }, (_, i) => `e${session}${String(i + 1).padStart(8, '0')}`)
}

function applyEvents(index: LiveIndex, offset: number, changed: readonly string[]): void {
  const entries = changed.map((key) => ({ kind: entryKind.event, key, at: 0, length: 100 }))
  index.apply(entries, { ...place, offset: offset + 100 }, offset)
}

test(`many flushes keep the newest place of each key, and count its bytes (FORKSPACE_SEED=${seed})`, async () => {
  const next = randomWords(seed)
  const below = (bound: number): number => next() % bound
  const sessions = ['a', 'b', 'bb', 'c'].map((name) => eventKeys(name, 400))
  for (let round = 0; round < runs(100); round++) {
    const db = new CountedDatabase()
    const index = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
    const newest = new Map<string, { segment: number; offset: number; length: number }>()
    let offset = 0
    for (let flushes = 0; flushes < 12; flushes++) {
      for (let commits = 1 + below(600); commits > 0; commits--) {
        const events = sessions[below(sessions.length)]!
        const [key, kind] = [
          [keys[below(3000)]!, entryKind.blob] as const,
          [keys[below(3000)]!, entryKind.deleteBlob] as const,
          [events[below(events.length)]!, entryKind.event] as const,
          [events[0]!.slice(0, -8), entryKind.deleteEvents] as const,
        ][[0, 0, 0, 0, 0, 0, 2, 2, 2, below(40) === 0 ? 3 : 0, below(4) === 0 ? 1 : 0][below(11)]!]!
        const [at, length, segment] = [below(50), 10 + below(200), 1 + flushes]
        index.apply([{ kind, key, at, length }], { ...place, segment, offset: offset + 300 }, offset)
        if (kind === entryKind.deleteBlob) newest.delete(key)
        else if (kind !== entryKind.deleteEvents) newest.set(key, { segment, offset: offset + at, length })
        else for (const event of newest.keys()) if (event.slice(0, -8) === key) newest.delete(event)
        offset += 300
      }
      await flush(index)
      const found = [...index.range('b', 'c', 10_000, false), ...index.range('e', 'f', 10_000, false)]
      const expected = [...newest].sort(([a], [b]) => (a < b ? -1 : 1))
      expect(found).toEqual(expected.map(([key, at]) => [key, { ...at, deleted: false }]))
      const live = new Map<number, number>()
      for (const { segment, length } of newest.values()) live.set(segment, (live.get(segment) ?? 0) + length)
      for (const [segment, use] of index.pages.root.uses) expect(use.live).toBe(live.get(segment) ?? 0)
      expect([...db.keys].sort()).toEqual(expectedKeys(index.pages))
    }
    expect(index.pages.root.pages.length).toBeGreaterThan(5)
  }
})

test('a page that new entries make too large is split', async () => {
  const db = memoryIndex()
  const index = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
  for (let from = 0; from < 4000; from += 200) {
    apply(index, 1000 + from, keys.slice(from, from + 200))
    await flush(index)
    const sizes = index.pages.root.pages.map(({ id }) => db.getSync(pageKey(id))?.length ?? 0)
    expect(Math.max(...sizes)).toBeLessThan(1.1 * levelLimits.pageBytesMax)
  }
  const offsetOf = (_: string, i: number): number => 1000 + i - (i % 200)
  expect(keys.slice(0, 4000).map((key) => index.get(key)?.offset)).toEqual(keys.slice(0, 4000).map(offsetOf))
})

test('a flush replaces an entry whose key is the lower bound of its page', async () => {
  const index = new LiveIndex(PageIndex.empty(memoryIndex(), { storeId, ...place }), place)
  const events = eventKeys('a', 4000)
  applyEvents(index, 1000, events)
  await flush(index)
  const bounds = index.pages.root.pages.map(({ lower }) => lower).filter((lower) => events.includes(lower))
  expect(bounds.length).toBeGreaterThan(3)
  for (const [i, bound] of bounds.entries()) {
    applyEvents(index, 2000 + 1000 * i, [bound])
    await flush(index)
  }
  const places = new Map(bounds.map((bound, i) => [bound, 2000 + 1000 * i]))
  const found = index.range('e', 'f', 10_000, false)
  expect(found.map(([key, { offset }]) => [key, offset])).toEqual(
    events.map((key) => [key, places.get(key) ?? 1000]),
  )
  expect(index.pages.root.uses).toEqual(new Map([[1, { live: 4000 * 100, deletions: 0 }]]))
})

test('a flush fails at a damaged page that it would change, and the old root stays', async () => {
  for (const kind of [entryKind.blob, entryKind.deleteBlob]) {
    const db = memoryIndex()
    const stored = new LiveIndex(PageIndex.empty(db, { storeId, ...place }), place)
    apply(stored, 100, keys.slice(0, 1000))
    await flush(stored)
    const index = new LiveIndex(present(PageIndex.load(db), 'an index'), place)
    const { root } = index.pages
    const key = itemAt(keys, 0)
    const { id } = itemAt(root.pages, index.pages.find(key))
    const damaged = Buffer.from(present(db.getSync(pageKey(id)), 'a page'))
    damaged.writeUInt8(damaged.readUInt8(30) ^ 1, 30)
    await db.batch([{ type: 'put', key: pageKey(id), value: damaged }], { sync: true })
    index.apply([{ kind, key, at: 0, length: 100 }], { ...place, offset: 1100 }, 1000)
    await expect(flush(index)).rejects.toMatchObject({ reason: 'DATA_LOSS', details: { damaged: 'index' } })
    expect(PageIndex.load(db)?.root).toEqual(root)
  }
})

test('a flush removes the events of a deleted session from each of its pages', async () => {
  const index = new LiveIndex(PageIndex.empty(memoryIndex(), { storeId, ...place }), place)
  const [before, deleted, after] = [eventKeys('a', 2000), eventKeys('b', 5000), eventKeys('c', 3)]
  applyEvents(index, 100, [...before, ...deleted, ...after])
  await flush(index)
  expect(index.pages.root.pages.length).toBeGreaterThan(3)

  index.apply(
    [{ kind: entryKind.deleteEvents, key: 'eb', at: 0, length: 10 }],
    { ...place, offset: 1100 },
    1000,
  )
  await flush(index)
  expect(index.range('ea', 'ed', 10_000, false).map(([key]) => key)).toEqual([...before, ...after])
  expect(index.pages.root.uses.get(1)).toEqual({ live: 2003 * 100, deletions: 10 })
})

test('a flush counts the bytes of replaced entries no longer, and drops the counts of segments without a file', async () => {
  const index = new LiveIndex(PageIndex.empty(memoryIndex(), { storeId, ...place }), place)
  apply(index, 100, keys.slice(0, 10))
  await flush(index)
  const entries = keys.slice(0, 4).map((key) => ({ kind: entryKind.blob, key, at: 0, length: 50 }))
  index.apply(entries, { ...place, segment: 2, offset: 200 }, 100)
  await flush(index)
  expect([...index.pages.root.uses]).toEqual([
    [1, { live: 6 * 100, deletions: 0 }],
    [2, { live: 4 * 50, deletions: 0 }],
  ])

  const options = { sync: true, mergeEntries: 0, hasSegment: (segment: number) => segment !== 1 }
  await index.flush(options, () => Promise.resolve())
  expect([...index.pages.root.uses.keys()]).toEqual([2])
})

test('the newest event of a session stays the newest when an older one is replaced, and is gone after a deletion', async () => {
  const index = new LiveIndex(PageIndex.empty(memoryIndex(), { storeId, ...place }), place)
  const events = eventKeys('a', 5)
  applyEvents(index, 100, events.slice(0, 3))
  await flush(index)
  applyEvents(index, 300, events.slice(3))
  applyEvents(index, 500, events.slice(1, 2))
  expect(index.lastEvent('ea')?.[0]).toBe(events[4])

  index.apply(
    [{ kind: entryKind.deleteEvents, key: 'ea', at: 0, length: 10 }],
    { ...place, offset: 800 },
    700,
  )
  expect(index.lastEvent('ea')).toBeUndefined()
  applyEvents(index, 900, events.slice(0, 1))
  expect(index.lastEvent('ea')?.[0]).toBe(events[0])
})

/** A text as the index stores it, with its checksum. */
function checkedText(text: string): Buffer {
  const bytes = Buffer.from(text)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32LE(crc32(bytes))
  return Buffer.concat([checksum, bytes])
}
