import { Buffer } from 'node:buffer'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  openEngine,
  type CachePutRequest,
  type Engine,
  type EngineOptions,
  type Session,
  type Storage,
  type Store,
} from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { lowerBound } from '../support/lower-bound.js'
import { size } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'
import { randomBytes } from '../support/random-bytes.js'
import { CacheEntries } from '../../src/engine/services/cache/cache-entries.js'
import { sameContent, toContent } from '../../src/engine/services/cache/cache-content.js'
import { ExpiryQueue } from '../../src/engine/services/cache/expiry-queue.js'

const refused = (reason: string, field?: string): unknown =>
  expect.objectContaining({
    name: 'EngineError',
    reason,
    ...(field !== undefined && { details: expect.objectContaining({ field }) as unknown }),
  })
const MiB = 2 ** 20

/** Bytes that differ for each seed. */
const bytes = (size: number, seed = 1): Uint8Array => randomBytes(size, seed)

describe.each(fewStorages)('the cache on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: FailingStorage
  let store: Store
  let environment: FixedEnvironment
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cache-'))
    const made = makeStorage(directory)
    const watched: Storage = { open: async () => (store = await made.open()) }
    storage = new FailingStorage(watched)
    environment = fixedEnvironment({ stepMs: 0 })
    engine = await openEngine({ storage, environment })
    session = await engine.sessions.create()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  test.runIf(lasting)('is freed of expired entries by a collection, before or after reopening', async () => {
    for (const isReopened of [false, true]) {
      await session.cache.put({ key: 'kept', value: bytes(200_000, 1), ttlSeconds: 3600 })
      await session.cache.put({ key: 'short', value: bytes(200_000, 2), ttlSeconds: 60 })
      environment.advance(59_999)
      if (isReopened) await reopen()
      expect((await engine.collect()).deletedBlobs).toBe(0)
      environment.advance(1)
      const { deletedBlobs, deletedRecords, freedBytes } = await engine.collect()
      expect({ deletedBlobs, deletedRecords }).toEqual({ deletedBlobs: 1, deletedRecords: 1 })
      // The content, and the record of the entry.
      expect(freedBytes).toBeGreaterThan(200_050)
      expect((await session.cache.get({ key: 'short' })).found).toBe(false)
      expect((await session.cache.get({ key: 'kept' })).value).toEqual(Buffer.from(bytes(200_000, 1)))
    }
  })

  test.runIf(lasting)(
    'keeps entries that are not expired, in a collection with a smaller cache',
    async () => {
      await session.cache.put({ key: 'kept', value: bytes(200_000, 1), ttlSeconds: 3600 })
      await session.cache.put({ key: 'short', value: bytes(200_000, 2), ttlSeconds: 60 })
      await session.cache.put({ key: 'forever', value: bytes(200_000, 3) })
      environment.advance(60_000)
      await reopen(0, { cacheBytes: 100_000 })
      expect((await engine.collect()).deletedBlobs).toBe(1)
      await reopen()
      expect(await session.cache.keys()).toMatchObject({ keys: ['forever', 'kept'] })
    },
  )

  test.runIf(lasting)(
    'keeps entries that expire only by a clock that is ahead, in a collection',
    async () => {
      let aheadMs = 0
      const jumping = { ...environment, wallClockMs: () => environment.wallClockMs() + aheadMs }
      await session.cache.put({ key: 'kept', value: bytes(200_000, 1), ttlSeconds: 3600 })
      await session.cache.put({ key: 'short', value: bytes(200_000, 2), ttlSeconds: 60 })
      environment.advance(60_000)
      await reopen(0, { environment: jumping })
      aheadMs = 24 * 3_600_000
      expect((await engine.collect()).deletedBlobs).toBe(1)
      await reopen()
      expect(await session.cache.keys()).toMatchObject({ keys: ['kept'] })
    },
  )

  /** Reopens the engine after a time. On storage that is not durable, only the time passes. */
  async function reopen(awayMs = 0, options: EngineOptions = {}): Promise<void> {
    if (lasting) await engine.close()
    environment.advance(awayMs)
    if (!lasting) return
    engine = await openEngine({ storage, environment, ...options })
    session = await engine.sessions.open(session.id)
  }

  /** Opens an engine with small caches. */
  async function openSmall(cacheBytes: number): Promise<void> {
    await engine.close()
    engine = await openEngine({ storage, environment, cacheBytes })
    session = await engine.sessions.create()
  }

  const put = (key: string, value: Uint8Array | string = key, ttlSeconds?: number): Promise<void> =>
    session.cache.put({ key, value, ...(ttlSeconds !== undefined && { ttlSeconds }) })

  const text = async (key: string): Promise<string | undefined> => {
    const { value, found } = await session.cache.get({ key })
    return found ? Buffer.from(value).toString() : undefined
  }

  const allKeys = async (): Promise<string[]> => {
    const found: string[] = []
    for await (const key of session.cache) found.push(key)
    return found
  }

  const records = async (): Promise<string[]> => {
    const range = { gte: `c${session.id}`, lt: `c${session.id}~`, limit: 1e6 }
    return (await store.scan(range)).map(([, json]) => (JSON.parse(json) as { key: string }).key)
  }

  test('keeps values until they are deleted', async () => {
    expect(await session.cache.get({ key: 'a' })).toEqual({ value: Buffer.alloc(0), found: false })
    await put('a', 'one')
    await put('b', new Uint8Array([0, 255, 128]))
    await put('empty', '')
    await put('a', 'zwei ü \u{1f600}')
    await reopen()
    expect(await text('a')).toBe('zwei ü \u{1f600}')
    expect([...(await session.cache.get({ key: 'b' })).value]).toEqual([0, 255, 128])
    expect(await session.cache.get({ key: 'empty' })).toEqual({ value: Buffer.alloc(0), found: true })
    expect(await session.cache.exists({ key: 'a' })).toEqual({ exists: true })
    await session.cache.delete({ key: 'a' })
    await session.cache.delete({ key: 'never there' })
    expect(await session.cache.exists({ key: 'a' })).toEqual({ exists: false })
    await reopen()
    expect(await text('a')).toBe(undefined)
    expect(await allKeys()).toEqual(['b', 'empty'])
    expect(await records()).toEqual(lasting ? ['b', 'empty'] : [])
    expect((await session.events.list()).events.map(({ eventType }) => eventType)).toHaveLength(1)
  })

  test('copies values on put and get', async () => {
    for (const size of [10, limits.cacheInlineBytes + 1]) {
      const value = bytes(size)
      const expected = Buffer.from(value)
      const pending = put('a', value)
      value.fill(7)
      await pending
      const first = (await session.cache.get({ key: 'a' })).value
      expect(expected.equals(first)).toBe(true)
      first.fill(9)
      expect(expected.equals((await session.cache.get({ key: 'a' })).value)).toBe(true)
      const view = new DataView(new Uint8Array([1, 2, 3, 4]).buffer, 1, 2) as unknown as Uint8Array
      await put('view', view)
      expect([...(await session.cache.get({ key: 'view' })).value]).toEqual([2, 3])
    }
  })

  test.each([0, 1, 4096, 4097, 64 * 1024 + 1, MiB, MiB + 1, 3 * MiB, 5 * MiB + 3, 8 * MiB])(
    'keeps a value of %d bytes',
    async (size) => {
      const value = bytes(size)
      await put('a', value)
      expect(Buffer.from((await session.cache.get({ key: 'a' })).value).equals(value)).toBe(true)
      expect(await session.cache.stats()).toMatchObject({ entryCount: 1, sizeBytes: size + 1 })
      await reopen()
      expect(Buffer.from((await session.cache.get({ key: 'a' })).value).equals(value)).toBe(true)
      expect(await session.cache.metadata({ key: 'a' })).toMatchObject({ sizeBytes: size })
      expect(await session.cache.stats()).toMatchObject({ entryCount: 1, sizeBytes: size + 1 })
    },
  )

  test('stores a put in one commit, except large contents, which it stores first', async () => {
    const commits: [entries: number, blobs: number][] = []
    const commit = store.commit.bind(store)
    store.commit = (all) => {
      const entries = all.put?.filter(([key]) => key.startsWith('c')) ?? []
      // Changes that are not durable make empty commits, which only yield to other work.
      if (Object.keys(all).length > 0) commits.push([entries.length, all.blobs?.length ?? 0])
      return commit(all)
    }
    await put('small', bytes(4096))
    await put('large', bytes(4097))
    await put('larger', bytes(3 * MiB))
    await put('largest', bytes(5 * MiB))
    const expected = [
      [1, 0],
      [1, 1],
      [1, 3],
      [0, 4],
      [0, 1],
      [1, 0],
    ]
    expect(commits).toEqual(lasting ? expected : [])
  })

  test('accepts unusual keys', async () => {
    const odd = [
      '__proto__',
      'constructor',
      '...',
      'a/b',
      '/',
      ' ',
      '\0',
      'a\0',
      ':',
      '~',
      '\uffff',
      '\u{10ffff}',
    ]
    odd.push('\u{10ffff}\u{10ffff}', 'ü', '\ue000', 'x'.repeat(1024), '\u{1f600}'.repeat(256))
    for (const key of odd) await put(key)
    await reopen()
    const inOrder = odd.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    expect(await allKeys()).toEqual(inOrder)
    for (const key of odd) expect(await text(key)).toBe(key)
    const { entries } = await session.cache.batchGet({ keys: odd })
    expect(entries).toEqual(odd.map((key) => ({ key, value: Buffer.from(key), found: true })))
    expect(await session.cache.batchDelete({ keys: odd })).toEqual({ deletedCount: odd.length })
    await reopen()
    expect(await allKeys()).toEqual([])
    expect(await records()).toEqual([])
  })

  test('reports the size and times of an entry', async () => {
    await expect(session.cache.metadata({ key: 'a' })).rejects.toEqual(refused('CACHE_KEY_NOT_FOUND'))
    await put('a', 'one')
    environment.advance(1000)
    await put('a', 'three', 60)
    const expected = {
      key: 'a',
      sizeBytes: 5,
      createdAt: '2025-01-01T00:00:00.000Z',
      updatedAt: '2025-01-01T00:00:01.000Z',
      expiresAt: '2025-01-01T00:01:01.000Z',
    }
    expect(await session.cache.metadata({ key: 'a' })).toEqual(expected)
    await reopen(1000)
    expect(await session.cache.metadata({ key: 'a' })).toEqual(expected)
    await put('a', '')
    expect(await session.cache.metadata({ key: 'a' })).toMatchObject({ sizeBytes: 0, expiresAt: '' })
    await session.cache.delete({ key: 'a' })
    await put('a', '')
    expect(await session.cache.metadata({ key: 'a' })).toMatchObject({
      createdAt: '2025-01-01T00:00:02.000Z',
    })
  })

  test('counts hits and misses of get and batchGet', async () => {
    await put('a')
    await text('a')
    await text('b')
    await session.cache.batchGet({ keys: ['a', 'b', 'a'] })
    await session.cache.exists({ key: 'a' })
    await session.cache.metadata({ key: 'a' })
    await session.cache.compareAndSet({ key: 'a', newValue: 'b' })
    const stats = { entryCount: 1, sizeBytes: 2, hitCount: 3, missCount: 2 }
    expect(await session.cache.stats()).toEqual(stats)
    await reopen()
    expect(await session.cache.stats()).toEqual(lasting ? { ...stats, hitCount: 0, missCount: 0 } : stats)
  })

  describe('an entry with a time to live', () => {
    test('expires for every read method', async () => {
      await put('a', 'one', 10)
      await put('for ever')
      environment.advance(9999)
      expect(await text('a')).toBe('one')
      environment.advance(1)
      expect(await text('a')).toBe(undefined)
      expect(await session.cache.exists({ key: 'a' })).toEqual({ exists: false })
      await expect(session.cache.metadata({ key: 'a' })).rejects.toEqual(refused('CACHE_KEY_NOT_FOUND'))
      expect(await allKeys()).toEqual(['for ever'])
      expect(await session.cache.stats()).toMatchObject({ entryCount: 1, sizeBytes: 16 })
      expect(await session.cache.batchDelete({ keys: ['a'] })).toEqual({ deletedCount: 0 })
      expect(await session.cache.deleteByPrefix({ prefix: 'a' })).toEqual({ deletedCount: 0 })
      const swap = { key: 'a', expectedValue: 'one', newValue: 'two' }
      expect(await session.cache.compareAndSet(swap)).toMatchObject({ swapped: false, found: false })
      // The record was deleted by the next change.
      expect(await records()).toEqual(lasting ? ['for ever'] : [])
    })

    test('gets a new time to live from every write', async () => {
      await put('a', 'one', 10)
      environment.advance(9000)
      await put('a', 'two', 10)
      environment.advance(9000)
      expect(await text('a')).toBe('two')
      await put('a', 'three')
      environment.advance(20_000)
      expect(await text('a')).toBe('three')
      await session.cache.compareAndSet({ key: 'a', expectedValue: 'three', newValue: 'four', ttlSeconds: 5 })
      environment.advance(5000)
      expect(await text('a')).toBe(undefined)
    })

    test('expires on time across a reopening, even while closed', async () => {
      await put('kept', 'kept', 100)
      await put('over', 'over', 10)
      await reopen(10_000)
      expect(await allKeys()).toEqual(['kept'])
      await session.cache.delete({ key: 'over' })
      await reopen(89_999)
      expect(await allKeys()).toEqual(['kept'])
      // Setting the wall clock back extends no lifetime.
      await reopen(-1_000_000)
      expect(await allKeys()).toEqual(['kept'])
      environment.advance(lasting ? 99_999 : 1_000_000)
      expect(await allKeys()).toEqual(['kept'])
      environment.advance(1)
      expect(await allKeys()).toEqual([])
    })

    test('lives for at most a year', async () => {
      await put('a', 'one', 1e300)
      expect(await session.cache.metadata({ key: 'a' })).toMatchObject({
        expiresAt: '2026-01-01T00:00:00.000Z',
      })
      for (const ttlSeconds of [-1, 0.5, Number.NaN, Infinity, '5' as unknown as number, null as never]) {
        await expect(put('a', 'two', ttlSeconds)).rejects.toEqual(refused('INVALID_ARGUMENT', 'ttlSeconds'))
      }
      expect(await text('a')).toBe('one')
      await put('a', 'two', 0)
      expect(await session.cache.metadata({ key: 'a' })).toMatchObject({ expiresAt: '' })
    })
  })

  describe('compare-and-set', () => {
    const swap = async (newValue: string, expectedValue?: string): Promise<unknown> => {
      const { value, ...rest } = await session.cache.compareAndSet({
        key: 'a',
        newValue,
        ...(expectedValue !== undefined && { expectedValue }),
      })
      return { ...rest, value: Buffer.from(value).toString() }
    }

    test('sets a value that matches and returns the current value', async () => {
      expect(await swap('one', 'none')).toEqual({ swapped: false, value: '', found: false })
      expect(await swap('one', '')).toEqual({ swapped: false, value: '', found: false })
      expect(await swap('')).toEqual({ swapped: true, value: '', found: true })
      expect(await swap('one')).toEqual({ swapped: false, value: '', found: true })
      expect(await swap('one', '')).toEqual({ swapped: true, value: 'one', found: true })
      expect(await swap('two', 'three')).toEqual({ swapped: false, value: 'one', found: true })
      await reopen()
      expect(await swap('two', 'one')).toEqual({ swapped: true, value: 'two', found: true })
      await reopen()
      expect(await text('a')).toBe('two')
    })

    test('compares large values without reading them', async () => {
      for (const size of [5000, 2 * MiB, 6 * MiB]) {
        const [one, two] = [bytes(size, 1), bytes(size, 2)]
        await put('a', one)
        await reopen()
        const wrong = await session.cache.compareAndSet({ key: 'a', expectedValue: two, newValue: 'x' })
        expect(wrong).toMatchObject({ swapped: false, found: true })
        expect(Buffer.from(wrong.value).equals(one)).toBe(true)
        const right = await session.cache.compareAndSet({ key: 'a', expectedValue: one, newValue: two })
        expect(right).toMatchObject({ swapped: true, found: true })
        expect(Buffer.from(right.value).equals(two)).toBe(true)
      }
    })

    test('stores large values that it sets', async () => {
      for (const size of [5000, 2 * MiB, 8 * MiB]) {
        const value = bytes(size)
        const request = { key: `${size}`, newValue: value }
        expect(await session.cache.compareAndSet(request)).toMatchObject({ swapped: true })
        await reopen()
        const stored = await session.cache.get({ key: `${size}` })
        expect(Buffer.from(stored.value).equals(value)).toBe(true)
      }
    })

    test('lets exactly one of many concurrent swaps win, so a counter loses no increment', async () => {
      await put('a', '0')
      await reopen()
      const add = async (): Promise<number> => {
        for (let tries = 1; ; tries++) {
          const now = (await text('a'))!
          const request = { key: 'a', expectedValue: now, newValue: String(Number(now) + 1) }
          if ((await session.cache.compareAndSet(request)).swapped) return tries
        }
      }
      const tries = await Promise.all(Array.from({ length: 20 }, add))
      expect(await text('a')).toBe('20')
      expect(Math.max(...tries)).toBeGreaterThan(1)
      const first = await Promise.all(
        Array.from({ length: 20 }, (_, i) => session.cache.compareAndSet({ key: 'new', newValue: `${i}` })),
      )
      expect(first.filter(({ swapped }) => swapped)).toHaveLength(1)
      expect(new Set(first.map(({ value }) => Buffer.from(value).toString()))).toEqual(new Set(['0']))
    })
  })

  describe('keys', () => {
    test('are listed in pages, by a literal prefix', async () => {
      const names = Array.from({ length: 25 }, (_, i) => `k${String(i).padStart(2, '0')}`)
      for (const name of [...names.toReversed(), 'j', 'l', 'k.*', 'K00']) await put(name)
      await reopen()
      const pages: string[][] = []
      for (let pageToken = ''; ;) {
        const page = await session.cache.keys({ prefix: 'k', pageSize: 10, pageToken })
        pages.push(page.keys)
        if (page.nextPageToken === '') break
        pageToken = page.nextPageToken
      }
      expect(pages).toEqual([['k.*', ...names.slice(0, 9)], names.slice(9, 19), names.slice(19)])
      expect((await session.cache.keys({ prefix: 'k.*' })).keys).toEqual(['k.*'])
      expect((await session.cache.keys({ prefix: 'none' })).keys).toEqual([])
      expect(await allKeys()).toEqual(['K00', 'j', 'k.*', ...names, 'l'])
      const exact = await session.cache.keys({ prefix: 'k0', pageSize: 10 })
      expect(exact).toEqual({ keys: names.slice(0, 10), nextPageToken: '' })
      expect((await session.cache.keys({ pageSize: 0 })).keys).toHaveLength(29)
      expect((await session.cache.keys({ pageSize: 1e6 })).keys).toHaveLength(29)
    })

    test('continue at the same position after insertions and deletions', async () => {
      for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) await put(key)
      const first = await session.cache.keys({ pageSize: 2 })
      expect(first.keys).toEqual(['a', 'b'])
      await session.cache.batchDelete({ keys: ['b', 'c', 'e'] })
      for (const key of ['aa', 'bb', 'e', 'g']) await put(key)
      await put('d', 'again')
      const second = await session.cache.keys({ pageSize: 3, pageToken: first.nextPageToken })
      expect(second.keys).toEqual(['bb', 'd', 'e'])
      const third = await session.cache.keys({ pageSize: 3, pageToken: second.nextPageToken })
      expect(third).toEqual({ keys: ['f', 'g'], nextPageToken: '' })
    })

    test('reject a page token of another listing', async () => {
      for (const key of ['a1', 'a2', 'b']) await put(key)
      const { nextPageToken } = await session.cache.keys({ prefix: 'a', pageSize: 1 })
      const other = await engine.sessions.create()
      const bad = refused('INVALID_ARGUMENT', 'pageToken')
      await expect(session.cache.keys({ pageToken: nextPageToken })).rejects.toEqual(bad)
      await expect(other.cache.keys({ prefix: 'a', pageToken: nextPageToken })).rejects.toEqual(bad)
      const asBytes = Buffer.from(nextPageToken, 'base64url') as unknown as string
      expect(await session.cache.keys({ prefix: 'a', pageToken: nextPageToken })).toMatchObject({
        keys: ['a2'],
      })
      await expect(session.cache.keys({ prefix: 'a', pageToken: asBytes })).rejects.toEqual(bad)
      for (const pageToken of ['x', '!', 5 as unknown as string])
        await expect(session.cache.keys({ pageToken })).rejects.toEqual(bad)
    })

    test('are deleted by a literal prefix', async () => {
      for (const key of ['a', 'a.b', 'a*', 'ab', 'b', '\u{1f600}a']) await put(key)
      expect(await session.cache.deleteByPrefix({ prefix: 'a*' })).toEqual({ deletedCount: 1 })
      expect(await session.cache.deleteByPrefix({ prefix: 'a' })).toEqual({ deletedCount: 3 })
      expect(await session.cache.deleteByPrefix({ prefix: 'a' })).toEqual({ deletedCount: 0 })
      await reopen()
      expect(await allKeys()).toEqual(['b', '\u{1f600}a'])
      expect(await session.cache.deleteByPrefix({ prefix: '\u{1f600}' })).toEqual({ deletedCount: 1 })
      await expect(session.cache.deleteByPrefix({ prefix: '' })).rejects.toEqual(
        refused('INVALID_ARGUMENT', 'prefix'),
      )
    })
  })

  describe('batches', () => {
    test('set all entries or none', async () => {
      await put('kept')
      const bad = [{ key: '' }, { ttlSeconds: -1 }, { value: 5 as unknown as string }, { key: '..' }]
      for (const wrong of bad) {
        const entries = [
          { key: 'a', value: 'a' },
          { key: 'b', value: 'b', ...wrong },
        ]
        await expect(session.cache.batchSet({ entries })).rejects.toMatchObject({
          reason: 'INVALID_ARGUMENT',
          details: { field: `entries[1].${Object.keys(wrong)[0]}` },
        })
      }
      expect(await allKeys()).toEqual(['kept'])
      const entries: CachePutRequest[] = [
        { key: 'a', value: 'one' },
        { key: 'b', value: bytes(5000), ttlSeconds: 10 },
        { key: 'c', value: bytes(5 * MiB) },
        { key: 'a', value: 'two' },
      ]
      await session.cache.batchSet({ entries })
      await reopen()
      expect(await text('a')).toBe('two')
      expect(await session.cache.stats()).toMatchObject({ entryCount: 4 })
      environment.advance(10_000)
      expect(await allKeys()).toEqual(['a', 'c', 'kept'])
      await session.cache.batchSet({ entries: [] })
    })

    test('return values in the order of the request', async () => {
      await put('a', 'one')
      await put('large', bytes(100_000))
      await reopen()
      const keys = ['b', 'a', 'large', 'b', 'a']
      const { entries } = await session.cache.batchGet({ keys })
      expect(entries.map(({ key, found, value }) => [key, found, value.length])).toEqual([
        ['b', false, 0],
        ['a', true, 3],
        ['large', true, 100_000],
        ['b', false, 0],
        ['a', true, 3],
      ])
      entries[1]!.value.fill(0)
      expect(entries[4]!.value).toEqual(Buffer.from('one'))
      expect(await session.cache.batchDelete({ keys: ['a', 'b', 'a'] })).toEqual({ deletedCount: 1 })
    })

    test('are bounded', async () => {
      if (name !== 'memory') lowerBound(limits, 'batchOperations', 1000)
      const most = limits.batchOperations
      const many = Array.from({ length: most + 1 }, (_, i) => `${i}`)
      const entries = many.map((key) => ({ key, value: '' }))
      await expect(session.cache.batchGet({ keys: many })).rejects.toEqual(refused('TOO_LARGE', 'keys'))
      await expect(session.cache.batchDelete({ keys: many })).rejects.toEqual(refused('TOO_LARGE', 'keys'))
      await expect(session.cache.batchSet({ entries })).rejects.toEqual(refused('TOO_LARGE', 'entries'))
      await session.cache.batchSet({ entries: entries.slice(1) })
      expect(await session.cache.batchDelete({ keys: many.slice(1) })).toEqual({ deletedCount: most })
      const value = bytes(8 * MiB)
      const large = Array.from({ length: 9 }, (_, i) => ({ key: `${i}`, value }))
      await expect(session.cache.batchSet({ entries: large })).rejects.toEqual(
        refused('TOO_LARGE', 'entries'),
      )
      expect(await allKeys()).toEqual([])
      await put('a', value)
      // A value that is requested twice counts twice.
      const twice = { keys: ['b', 'b'] }
      await openSmall(100)
      await put('b', 'x'.repeat(50))
      expect((await session.cache.batchGet(twice)).entries).toHaveLength(2)
      await put('b', 'x'.repeat(51))
      await expect(session.cache.batchGet(twice)).rejects.toEqual(refused('TOO_LARGE', 'keys'))
      await openSmall(64 * MiB)
      await put('a', value)
      const keys = Array.from({ length: most }, () => 'a')
      await expect(session.cache.batchGet({ keys })).rejects.toEqual(refused('TOO_LARGE', 'keys'))
    })
  })

  describe('that is full', () => {
    const value = 'x'.repeat(99)

    test('evicts the least recently used entries', async () => {
      await openSmall(500)
      for (const key of ['a', 'b', 'c', 'd', 'e']) await put(key, value)
      await text('a')
      await put('b', value)
      await session.cache.compareAndSet({ key: 'c', expectedValue: 'other', newValue: '' })
      await session.cache.exists({ key: 'd' })
      await session.cache.metadata({ key: 'd' })
      await put('f', value)
      expect(await allKeys()).toEqual(['a', 'b', 'c', 'e', 'f'])
      await session.cache.batchGet({ keys: ['a', 'e'] })
      await session.cache.batchSet({
        entries: [
          { key: 'g', value },
          { key: 'h', value },
        ],
      })
      expect(await allKeys()).toEqual(['a', 'e', 'f', 'g', 'h'])
      expect(await session.cache.stats()).toMatchObject({ entryCount: 5, sizeBytes: 500 })
      await put('a', 'x'.repeat(199))
      expect(await allKeys()).toEqual(['a', 'e', 'g', 'h'])
      expect(await records()).toEqual(lasting ? ['a', 'e', 'g', 'h'] : [])
    })

    test('evicts expired entries first', async () => {
      await openSmall(300)
      await put('a', value)
      await put('b', value, 10)
      await put('c', value)
      await text('b')
      environment.advance(10_000)
      await put('d', value)
      expect(await allKeys()).toEqual(['a', 'c', 'd'])
    })

    test('evicts by last write after a reopening', async () => {
      await openSmall(300)
      for (const key of ['c', 'b', 'a']) await put(key, value)
      await put('c', value)
      await text('b')
      if (!lasting) return
      await reopen(0, { cacheBytes: 300 })
      await put('d', value)
      expect(await allKeys()).toEqual(['a', 'c', 'd'])
      await put('e', value)
      expect(await allKeys()).toEqual(['c', 'd', 'e'])
      // The capacity is smaller than before: the most recently written entries stay.
      await reopen(0, { cacheBytes: 200 })
      expect(await allKeys()).toEqual(['d', 'e'])
      await put('d', value)
      expect(await records()).toEqual(['d', 'e'])
    })

    test('rejects values that can never fit, and evicts nothing for them', async () => {
      await openSmall(100)
      await put('a', value)
      const entries = [
        { key: 'b', value: 'x'.repeat(50) },
        { key: 'c', value: 'x'.repeat(50) },
      ]
      await expect(put('a', `${value}x`)).rejects.toEqual(refused('TOO_LARGE', 'value'))
      await expect(session.cache.compareAndSet({ key: 'b', newValue: `${value}x` })).rejects.toEqual(
        refused('TOO_LARGE', 'newValue'),
      )
      await expect(session.cache.batchSet({ entries })).rejects.toEqual(refused('TOO_LARGE', 'entries'))
      expect(await text('a')).toBe(value)
    })

    test.runIf(lasting)('also limits the number of entries', async () => {
      if (size < 1) lowerBound(limits, 'cacheEntries', 10_000)
      await openSmall(MiB)
      const batch = limits.cacheEntries / 10
      for (let start = 0; start <= limits.cacheEntries; start += batch) {
        const entries = Array.from({ length: batch }, (_, i) => ({ key: `${start + i}`, value: '' }))
        await session.cache.batchSet({ entries })
      }
      expect(await session.cache.stats()).toMatchObject({ entryCount: limits.cacheEntries })
      expect(await session.cache.exists({ key: String(batch - 1) })).toEqual({ exists: false })
      expect(await session.cache.exists({ key: String(batch) })).toEqual({ exists: true })
      await reopen()
      expect(await session.cache.stats()).toMatchObject({ entryCount: limits.cacheEntries })
      expect(await session.cache.deleteByPrefix({ prefix: '1' })).toEqual({ deletedCount: 2 * batch })
    })
  })

  test('rejects invalid arguments', async () => {
    const { cache } = session
    const invalid = [undefined, null, 5, {}, '', '.', '..', '\ud800', [], { toString: () => 'a' }]
    for (const one of invalid) {
      const key = one as string
      for (const call of [
        cache.put({ key, value: '' }),
        cache.get({ key }),
        cache.delete({ key }),
        cache.exists({ key }),
        cache.metadata({ key }),
        cache.compareAndSet({ key, newValue: '' }),
      ])
        await expect(call).rejects.toEqual(refused('INVALID_ARGUMENT', 'key'))
      const inList = refused('INVALID_ARGUMENT', 'keys[1]')
      await expect(cache.batchGet({ keys: ['a', key] })).rejects.toEqual(inList)
      await expect(cache.batchDelete({ keys: ['a', key] })).rejects.toEqual(inList)
    }
    for (const key of ['x'.repeat(1025), '\u{1f600}'.repeat(257)])
      await expect(cache.get({ key })).rejects.toEqual(refused('TOO_LARGE', 'key'))
    const noBytes = [Object.create(new Uint8Array(2)), new Proxy(new Uint8Array(2), {})] as unknown[]
    for (const one of [undefined, null, 5, {}, [1, 2], new ArrayBuffer(2), '\ud800', ...noBytes]) {
      const value = one as string
      await expect(cache.put({ key: 'a', value })).rejects.toEqual(refused('INVALID_ARGUMENT', 'value'))
      await expect(cache.compareAndSet({ key: 'a', newValue: value })).rejects.toEqual(
        refused('INVALID_ARGUMENT', 'newValue'),
      )
      if (value === undefined) continue
      const request = { key: 'a', expectedValue: value, newValue: '' }
      await expect(cache.compareAndSet(request)).rejects.toEqual(refused('INVALID_ARGUMENT', 'expectedValue'))
    }
    for (const value of [Buffer.alloc(8 * MiB + 1), 'x'.repeat(8 * MiB + 1), 'ü'.repeat(4 * MiB + 1)])
      await expect(cache.put({ key: 'a', value })).rejects.toEqual(refused('TOO_LARGE', 'value'))
    for (const request of [undefined, null, 5, 'a', []] as never[]) {
      const calls = [cache.put(request), cache.get(request), cache.batchGet(request), cache.batchSet(request)]
      const others = [cache.compareAndSet(request), cache.deleteByPrefix(request), cache.delete(request)]
      for (const call of [...calls, ...others])
        await expect(call).rejects.toEqual(refused('INVALID_ARGUMENT'))
    }
    for (const list of [undefined, null, 'a', {}, { length: 1 }] as never[]) {
      await expect(cache.batchGet({ keys: list })).rejects.toEqual(refused('INVALID_ARGUMENT', 'keys'))
      await expect(cache.batchSet({ entries: list })).rejects.toEqual(refused('INVALID_ARGUMENT', 'entries'))
    }
    const sparse: string[] = []
    sparse.length = 2
    await expect(cache.batchGet({ keys: sparse })).rejects.toEqual(refused('INVALID_ARGUMENT', 'keys[0]'))
    await expect(cache.keys({ prefix: '\ud800' })).rejects.toEqual(refused('INVALID_ARGUMENT', 'prefix'))
    await expect(cache.keys({ pageSize: -1 })).rejects.toEqual(refused('INVALID_ARGUMENT', 'pageSize'))
    expect(await allKeys()).toEqual([])
  })

  test('belongs to one session and is not changed by a restore', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await put('a', 'parent')
    const fork = await session.fork()
    expect(await fork.cache.get({ key: 'a' })).toMatchObject({ found: false })
    await fork.cache.put({ key: 'a', value: 'fork' })
    await session.restore({ checkpointLabel: 'before' })
    expect(await text('a')).toBe('parent')
    await reopen()
    expect(await text('a')).toBe('parent')
    await session.delete()
    await expect(put('a')).rejects.toEqual(refused('SESSION_NOT_FOUND'))
    await expect(text('a')).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })

  test('can be withheld from a handle', async () => {
    const narrow = session.narrow({ without: ['cache'] })
    await expect(narrow.cache.get({ key: 'a' })).rejects.toEqual(refused('PERMISSION_DENIED'))
    await expect(narrow.cache.put({ key: 'a', value: '' })).rejects.toEqual(refused('PERMISSION_DENIED'))
  })

  test('applies changes in call order', async () => {
    await put('a', '0')
    await reopen()
    const large = bytes(5 * MiB)
    const calls = [put('a', '1'), put('a', large), session.cache.delete({ key: 'a' }), put('a', '2')]
    calls.push(session.cache.batchSet({ entries: [{ key: 'b', value: '1' }] }))
    await Promise.all(calls)
    expect(await text('a')).toBe('2')
    await reopen()
    expect(await text('a')).toBe('2')
    expect(await text('b')).toBe('1')
  })

  test.runIf(lasting)('is reloaded after a failed write', async () => {
    await put('a', 'stored')
    await put('over', 'stored', 10)
    storage.next = 'fail'
    await expect(put('a', 'lost')).rejects.toEqual(refused('STORE_FAILED'))
    await expect(session.cache.delete({ key: 'a' })).rejects.toEqual(refused('STORE_FAILED'))
    expect(await text('a')).toBe('stored')
    storage.next = 'commit'
    await reopen(10_000)
    expect(await allKeys()).toEqual(['a'])
  })

  test.runIf(lasting)('reports a large value that could not be stored', async () => {
    await put('a', 'stored')
    storage.next = 'fail'
    await expect(put('a', bytes(5 * MiB))).rejects.toEqual(refused('STORE_FAILED'))
    expect(await text('a')).toBe('stored')
    storage.next = 'commit'
  })

  test.runIf(lasting)('reports a damaged record and its session', async () => {
    for (const damage of ['', '{', 'null', '{"key":"a"}']) {
      await put('a', 'stored')
      await engine.close()
      const raw = await storage.open()
      const key = `c${session.id}:a`
      await raw.commit({ put: [[key, damage]] })
      await raw.close()
      engine = await openEngine({ storage, environment })
      session = await engine.sessions.open(session.id)
      const lost = { reason: 'DATA_LOSS', details: { sessionId: session.id, key } }
      await expect(text('a')).rejects.toMatchObject(lost)
      await expect(put('b')).rejects.toMatchObject(lost)
      session = await engine.sessions.create()
    }
  })

  test('keeps a value that is replaced while it is read', async () => {
    const [one, two] = [bytes(6 * MiB, 1), bytes(6 * MiB, 2)]
    await put('a', one)
    await reopen()
    await session.cache.stats()
    const reading = session.cache.get({ key: 'a' })
    const writing = put('a', two)
    expect(Buffer.from((await reading).value).equals(one)).toBe(true)
    await writing
    expect(Buffer.from((await session.cache.get({ key: 'a' })).value).equals(two)).toBe(true)
  })
})

test.each([-1, 0.5, Number.NaN, '5' as unknown as number])(
  'an engine rejects cacheBytes of %s',
  async (cacheBytes) => {
    await expect(openEngine({ cacheBytes })).rejects.toEqual(refused('INVALID_ARGUMENT', 'cacheBytes'))
  },
)

describe('the entries of a cache', () => {
  const runAll = (steps: Iterable<unknown>): void => {
    for (const _ of steps);
  }
  const forever = Number.POSITIVE_INFINITY
  const item = (key: string, size = 1, { deadline = forever, expiresAt = 0 } = {}) => ({
    key,
    content: toContent(Buffer.alloc(size)),
    createdAt: 0,
    updatedAt: 0,
    expiresAt,
    deadline,
  })

  test('may fill the bounds exactly', () => {
    const entries = new CacheEntries({ bytes: 6, entries: 2 })
    entries.put(item('é', 2))
    entries.put(item('b', 1))
    expect([entries.bytes, entries.size, entries.isOver]).toEqual([6, 2, false])
    entries.put(item('b', 2))
    expect([entries.bytes, entries.isOver]).toEqual([7, true])
    entries.evict()
    expect([entries.bytes, entries.size]).toEqual([3, 1])
    expect(entries.takeRemoved()).toEqual(['é'])
    entries.put(item('c', 0))
    expect(entries.isOver).toBe(false)
    entries.put(item('d', 0))
    expect(entries.isOver).toBe(true)
  })

  test('are evicted in the order of their last use', () => {
    const entries = new CacheEntries({ bytes: 100, entries: 2 })
    for (const key of ['a', 'b', 'c', 'd']) entries.put(item(key))
    entries.use('a')
    entries.use('d')
    entries.use('b')
    entries.evict()
    expect(entries.keys('', 10)).toEqual(['b', 'd'])
    expect(entries.takeRemoved().toSorted()).toEqual(['a', 'c'])
  })

  test('are restored in the order of their writes, and continue it', () => {
    const entries = new CacheEntries({ bytes: 100, entries: 2 })
    for (const [key, order] of [
      ['a', 7],
      ['b', 3],
      ['c', 5],
    ] as const)
      entries.restore({ ...item(key), order })
    entries.restored()
    entries.evict()
    expect(entries.keys('', 10)).toEqual(['a', 'c'])
    expect(entries.put(item('d'))).toBe(8)
    entries.evict()
    expect(entries.keys('', 10)).toEqual(['a', 'd'])
  })

  test('that were removed are named once, and not at all if they were put again', () => {
    const entries = new CacheEntries({ bytes: 100, entries: 10 })
    entries.put(item('a'))
    entries.put(item('b'))
    expect(entries.remove('a')).toBe(true)
    expect(entries.remove('a')).toBe(false)
    entries.remove('b')
    entries.put(item('a'))
    expect(entries.takeRemoved()).toEqual(['b'])
    expect(entries.takeRemoved()).toEqual([])
  })

  test('expire at their deadline, and not by the deadline of an earlier value', () => {
    const entries = new CacheEntries({ bytes: 100, entries: 10 })
    entries.put(item('a', 1, { deadline: 10 }))
    entries.put(item('b', 1, { deadline: 10 }))
    entries.put(item('b', 1, { deadline: 20 }))
    entries.put(item('c', 1, { deadline: 10 }))
    entries.put(item('c', 1))
    expect(entries.nextExpiry).toBe(10)
    runAll(entries.tidy(9))
    expect(entries.keys('', 10)).toEqual(['a', 'b', 'c'])
    runAll(entries.tidy(10))
    expect(entries.keys('', 10)).toEqual(['b', 'c'])
    runAll(entries.tidy(19))
    expect(entries.keys('', 10)).toEqual(['b', 'c'])
    runAll(entries.tidy(20))
    expect(entries.keys('', 10)).toEqual(['c'])
    expect(entries.nextExpiry).toBe(forever)
  })

  test('are removed by both clocks together only', () => {
    const entries = new CacheEntries({ bytes: 100, entries: 10 })
    entries.put(item('both', 1, { deadline: 10, expiresAt: 10 }))
    entries.put(item('later', 1, { deadline: 11, expiresAt: 10 }))
    entries.put(item('wall', 1, { deadline: 10, expiresAt: 11 }))
    entries.put(item('never', 1))
    runAll(entries.removeExpired(10, 10))
    expect(entries.takeRemoved()).toEqual(['both'])
  })

  test('are listed by prefix, after a key, up to a limit, also after changes of a listed cache', () => {
    const entries = new CacheEntries({ bytes: 1e6, entries: 1e6 })
    for (const key of ['b', 'a/1', 'a', 'a/2', '～', '😀']) entries.put(item(key))
    expect(entries.keys('', 10)).toEqual(['a', 'a/1', 'a/2', 'b', '～', '😀'])
    expect(entries.keys('a/', 10)).toEqual(['a/1', 'a/2'])
    expect(entries.keys('a/', 1)).toEqual(['a/1'])
    expect(entries.keys('a/', 10, 'a/1')).toEqual(['a/2'])
    expect(entries.keys('', 2, 'a/1')).toEqual(['a/2', 'b'])
    expect(entries.keys('c', 10, 'a')).toEqual([])
    entries.remove('a/1')
    entries.put(item('a/3'))
    entries.put(item('a/0'))
    expect(entries.keys('a', 10)).toEqual(['a', 'a/0', 'a/2', 'a/3'])
    entries.remove('a/0')
    entries.put(item('a/0'))
    expect(entries.keys('a', 10)).toEqual(['a', 'a/0', 'a/2', 'a/3'])
  })

  test('are listed right after very many were removed and added', () => {
    const entries = new CacheEntries({ bytes: 1e6, entries: 1e6 })
    entries.put(item('kept'))
    expect(entries.keys('', 10)).toEqual(['kept'])
    for (let index = 0; index < 3 * limits.cacheStaleEntries; index++) {
      entries.put(item(`k${index}`, 1, { deadline: index }))
      entries.remove(`k${index}`)
    }
    entries.put(item('last', 1, { deadline: 5 }))
    expect(entries.keys('', 10)).toEqual(['kept', 'last'])
    expect(entries.nextExpiry).toBeLessThanOrEqual(5)
    runAll(entries.tidy(5))
    expect(entries.keys('', 10)).toEqual(['kept'])
  })
})

test.each([0, 1, limits.cacheInlineBytes, limits.cacheInlineBytes + 1, MiB - 1, MiB, MiB + 1, 2 * MiB])(
  'a value of %i bytes equals only one with the same bytes',
  (length) => {
    const content = toContent(bytes(length))
    expect(sameContent(content, toContent(bytes(length)))).toBe(true)
    for (const other of [
      bytes(length + 1),
      bytes(length + MiB),
      bytes(Math.max(0, length - 1)),
      bytes(length, 2),
    ]) {
      const isSame = Buffer.compare(other, bytes(length)) === 0
      expect([sameContent(content, toContent(other)), sameContent(toContent(other), content)]).toEqual([
        isSame,
        isSame,
      ])
    }
  },
)

test('a queue of expiries returns its items in the order of their deadlines', () => {
  const queue = new ExpiryQueue<number>()
  expect([queue.next, queue.take()]).toEqual([Number.POSITIVE_INFINITY, undefined])
  const deadlines = Array.from({ length: 200 }, (_, index) => (index * 73) % 101)
  for (const [index, deadline] of deadlines.entries()) {
    queue.add(deadline, index)
    expect(queue.next).toBe(Math.min(...deadlines.slice(0, index + 1)))
  }
  expect(queue.size).toBe(200)
  const taken: number[] = []
  const items = new Set<number>()
  for (let next = queue.take(); next !== undefined; next = queue.take()) {
    taken.push(next.deadline)
    items.add(next.item)
    expect(deadlines[next.item]).toBe(next.deadline)
  }
  expect(taken).toEqual(deadlines.toSorted((a, b) => a - b))
  expect(items.size).toBe(200)
  queue.add(1, 1)
  queue.clear()
  expect([queue.size, queue.next]).toEqual([0, Number.POSITIVE_INFINITY])
})
