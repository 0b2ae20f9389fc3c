import { Buffer } from 'node:buffer'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { limits, openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { CacheEntries } from '../../src/engine/services/cache/cache-entries.js'
import { toContent } from '../../src/engine/services/cache/cache-content.js'
import { fixedEnvironment, randomWords, type FixedEnvironment } from '../../src/testing.js'
import { storages } from '../support/storages.js'
import { runs, seed } from '../support/seed.js'

const cacheBytes = 30_000
const noSuch = { value: '', found: false }

interface ModelEntry {
  key: string
  value: string
  createdAt: number
  updatedAt: number
  /** Infinite if the entry does not expire. */
  expiresAt: number
}

/** A cache as documented: a list, most recently used last, searched linearly. */
class Model {
  list: ModelEntry[] = []
  /** The keys in the order of their last writes. */
  written: string[] = []
  now = 0
  hitCount = 0
  missCount = 0

  alive(): ModelEntry[] {
    this.list = this.list.filter(({ expiresAt }) => expiresAt > this.now)
    return this.list
  }

  find(key: string): ModelEntry | undefined {
    return this.alive().find((one) => one.key === key)
  }

  use(key: string): ModelEntry | undefined {
    const entry = this.find(key)
    if (entry !== undefined) this.list = [...this.list.filter((one) => one !== entry), entry]
    return entry
  }

  get(key: string): { value: string; found: boolean } {
    const entry = this.use(key)
    if (entry === undefined) this.missCount++
    else this.hitCount++
    return entry === undefined ? noSuch : { value: entry.value, found: true }
  }

  put(key: string, value: string, ttlSeconds: number): void {
    const createdAt = this.find(key)?.createdAt ?? this.now
    const expiresAt = ttlSeconds === 0 ? Infinity : this.now + ttlSeconds * 1000
    this.list = this.list.filter((one) => one.key !== key)
    this.list.push({ key, value, createdAt, updatedAt: this.now, expiresAt })
    this.written = [...this.written.filter((one) => one !== key), key]
  }

  bytes(): number {
    return this.alive().reduce((sum, { key, value }) => sum + Buffer.byteLength(key) + value.length, 0)
  }

  /** Called after a put, or after all puts of a batch. */
  evict(): void {
    while (this.bytes() > cacheBytes) this.list.shift()
  }

  delete(keys: readonly string[]): number {
    const before = this.alive().length
    this.list = this.list.filter(({ key }) => !keys.includes(key))
    return before - this.list.length
  }

  keys(prefix = ''): string[] {
    return this.alive()
      .map(({ key }) => key)
      .filter((key) => key.startsWith(prefix))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  }

  reopen(): void {
    this.alive().sort((a, b) => this.written.indexOf(a.key) - this.written.indexOf(b.key))
    this.hitCount = 0
    this.missCount = 0
  }
}

const names = ['a', 'b', 'a/', 'a/b', 'ab', '\u{10ffff}', '\ue000', '\u{1f600}', '__proto__', ':']
const key = fc.constantFrom(...names)
const prefix = fc.constantFrom('a', 'a/', '\u{10ffff}', 'none')
/**
 * A letter and a repeat count: sizes for inline values, single blobs, and values of which the cache can only hold a
 * few.
 */
const value = fc
  .tuple(
    fc.constantFrom('x', 'y'),
    fc.constantFrom(0, 1, 100, limits.cacheInlineBytes, limits.cacheInlineBytes + 1, 9000, 29_000),
  )
  .map(([letter, count]) => letter.repeat(count))
const ttlSeconds = fc.constantFrom(0, 0, 1, 2, 10)
const entry = fc.record({ key, value, ttlSeconds })

type Step =
  | { do: 'put'; entry: { key: string; value: string; ttlSeconds: number } }
  | { do: 'get' | 'delete' | 'metadata'; key: string }
  | { do: 'swap'; key: string; rivals: readonly { guess: 'right' | 'wrong' | 'none'; value: string }[] }
  | { do: 'batchGet' | 'batchDelete'; keys: readonly string[] }
  | { do: 'batchSet'; entries: readonly { key: string; value: string; ttlSeconds: number }[] }
  | { do: 'deleteByPrefix'; prefix: string }
  | { do: 'pages'; prefix: string; pageSize: number }
  | { do: 'wait' | 'reopen'; ms: number }

const ms = fc.constantFrom(1, 999, 1000, 3000, 10_000)
const rival = fc.record({ guess: fc.constantFrom('right', 'wrong', 'none'), value }) as fc.Arbitrary<{
  guess: 'right' | 'wrong' | 'none'
  value: string
}>
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('put' as const), entry }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constantFrom('get', 'delete', 'metadata'), key }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('swap' as const),
      key,
      rivals: fc.array(rival, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('batchGet', 'batchDelete'),
      keys: fc.array(key, { maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('batchSet' as const),
      entries: fc.array(entry, { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('deleteByPrefix' as const), prefix }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('pages' as const),
      prefix: fc.constantFrom('', 'a', 'a/'),
      pageSize: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('wait', 'reopen'), ms }) },
)

interface World {
  readonly storage: Storage
  readonly lasting: boolean
  readonly environment: FixedEnvironment
  readonly model: Model
  engine: Engine
  session: Session
}

const shown = ({ value, ...rest }: { value: Uint8Array }): object => ({
  ...rest,
  value: Buffer.from(value).toString(),
})

function same(actual: unknown, expected: unknown): void {
  expect(actual).toEqual(expected)
}

async function run(world: World, step: Step): Promise<void> {
  const { model, environment } = world
  const { cache } = world.session
  switch (step.do) {
    case 'put': {
      await cache.put(step.entry)
      model.put(step.entry.key, step.entry.value, step.entry.ttlSeconds)
      model.evict()
      break
    }
    case 'get':
      same(shown(await cache.get({ key: step.key })), model.get(step.key))
      break
    case 'delete':
      await cache.delete({ key: step.key })
      model.delete([step.key])
      break
    case 'metadata': {
      const found = model.find(step.key)
      same(await cache.exists({ key: step.key }), { exists: found !== undefined })
      const expected =
        found === undefined
          ? 'CACHE_KEY_NOT_FOUND'
          : {
              key: step.key,
              sizeBytes: found.value.length,
              createdAt: new Date(found.createdAt).toISOString(),
              updatedAt: new Date(found.updatedAt).toISOString(),
              expiresAt: found.expiresAt === Infinity ? '' : new Date(found.expiresAt).toISOString(),
            }
      const metadata = await cache
        .metadata({ key: step.key })
        .catch(({ reason }: { reason: string }) => reason)
      same(metadata, expected)
      break
    }
    case 'swap': {
      // Calls made at once, each guarded by the value before them, take effect in order.
      const before = model.find(step.key)?.value
      const calls = step.rivals.map(({ guess, value }) => {
        const expected = guess === 'none' ? undefined : guess === 'right' ? before : 'z'
        const request = { key: step.key, newValue: value }
        return {
          expected,
          value,
          outcome: cache.compareAndSet(
            expected === undefined ? request : { ...request, expectedValue: expected },
          ),
        }
      })
      for (const { expected, value, outcome } of calls) {
        const held = model.use(step.key)?.value
        const swapped = held === expected
        if (swapped) {
          model.put(step.key, value, 0)
          model.evict()
        }
        const after = swapped ? value : held
        same(shown(await outcome), {
          swapped,
          ...(after === undefined ? noSuch : { value: after, found: true }),
        })
      }
      break
    }
    case 'batchGet': {
      const bytes = step.keys.reduce((sum, key) => sum + (model.find(key)?.value.length ?? 0), 0)
      const outcome = await cache.batchGet({ keys: step.keys }).then(
        ({ entries }) => entries.map(shown),
        ({ reason }: { reason: string }) => reason,
      )
      // A rejected call does not count as a use of any entry.
      const fits = bytes <= cacheBytes
      same(outcome, fits ? step.keys.map((key) => ({ key, ...model.get(key) })) : 'TOO_LARGE')
      break
    }
    case 'batchDelete':
      same(await cache.batchDelete({ keys: step.keys }), { deletedCount: model.delete(step.keys) })
      break
    case 'batchSet': {
      const bytes = step.entries.reduce(
        (sum, { key, value }) => sum + Buffer.byteLength(key) + value.length,
        0,
      )
      const outcome = await cache
        .batchSet({ entries: step.entries })
        .catch(({ reason }: { reason: string }) => reason)
      same(outcome, bytes > cacheBytes ? 'TOO_LARGE' : undefined)
      if (bytes > cacheBytes) break
      for (const { key, value, ttlSeconds } of step.entries) model.put(key, value, ttlSeconds)
      model.evict()
      break
    }
    case 'deleteByPrefix': {
      const deletedCount = model.delete(model.keys(step.prefix))
      same(await cache.deleteByPrefix({ prefix: step.prefix }), { deletedCount })
      break
    }
    case 'pages': {
      const pages: string[][] = []
      for (let pageToken = ''; ;) {
        const page = await cache.keys({ prefix: step.prefix, pageSize: step.pageSize, pageToken })
        pages.push(page.keys)
        pageToken = page.nextPageToken
        if (pageToken === '') break
      }
      same(pages.flat(), model.keys(step.prefix))
      for (const page of pages.slice(0, -1)) same(page.length, step.pageSize)
      break
    }
    case 'reopen':
    case 'wait': {
      const reopens = step.do === 'reopen' && world.lasting
      if (reopens) await world.engine.close()
      environment.advance(step.ms)
      model.now += step.ms
      if (!reopens) break
      model.reopen()
      world.engine = await openEngine({ storage: world.storage, environment, cacheBytes })
      world.session = await world.engine.sessions.open(world.session.id)
      break
    }
  }
  const { hitCount, missCount } = model
  const stats = { entryCount: model.alive().length, sizeBytes: model.bytes(), hitCount, missCount }
  same(await world.session.cache.stats(), stats)
  const alive: string[] = []
  for (const name of names) if ((await world.session.cache.exists({ key: name })).exists) alive.push(name)
  same(
    alive,
    names.filter((name) => model.find(name) !== undefined),
  )
}

const startMs = Date.UTC(2025, 0, 1)

describe.each(storages)('the cache on %s', (name, makeStorage, lasting) => {
  let directory: string
  let count = 0

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cache-model-'))
  })

  afterAll(async () => {
    await rm(directory, { recursive: true, force: true })
  })

  const numRuns = runs(name === 'level' ? 25 : 150)
  test(`agrees with a plain model, ${numRuns} runs`, { timeout: 60_000 + numRuns * 1000 }, async () => {
    const steps = fc.array(step, { minLength: 10, maxLength: 60, size: 'max' })
    const property = fc.asyncProperty(steps, async (all) => {
      const storage = makeStorage(join(directory, String(count++)))
      const environment = fixedEnvironment({ stepMs: 0, startMs })
      const engine = await openEngine({ storage, environment, cacheBytes })
      const session = await engine.sessions.create()
      const model = new Model()
      model.now = startMs
      const world: World = { storage, lasting, environment, model, engine, session }
      try {
        for (const one of all) await run(world, one)
      } finally {
        await world.engine.close()
      }
    })
    await expect(fc.assert(property, { seed, numRuns })).resolves.toBe(undefined)
  })
})

/** Many more entries than in the model above, most of which are soon removed. */
test.each(Array.from({ length: runs(20) }, (_, i) => seed + i))(
  'keeps entries in memory like a plain model, seed %d',
  (runSeed) => {
    const word = randomWords(runSeed)
    const pick = (count: number): number => word() % count
    const maxEntries = 20 + pick(300)
    const entries = new CacheEntries({ bytes: Infinity, entries: maxEntries })
    const model = new Map<string, number>()
    const removed = new Set<string>()
    const gone = (key: string): void => void (model.delete(key) && removed.add(key))
    let now = 0
    for (let i = 0; i < 3000; i++) {
      const key = `${pick(3)}-${pick(400)}`
      const what = pick(100)
      if (what < 60) {
        const deadline = pick(2) === 0 ? Infinity : now + 1 + pick(200)
        entries.put({
          key,
          content: toContent(Buffer.alloc(1)),
          createdAt: 0,
          updatedAt: 0,
          expiresAt: 0,
          deadline,
        })
        model.delete(key)
        model.set(key, deadline)
        removed.delete(key)
        entries.evict()
        if (model.size > maxEntries) gone(model.keys().next().value!)
      } else if (what < 85) {
        same(entries.remove(key), model.has(key))
        gone(key)
      } else if (what < 95) {
        now += pick(10)
        for (const step of entries.tidy(now)) same(step, undefined)
        for (const [key, deadline] of model) if (deadline <= now) gone(key)
        same(entries.nextExpiry <= Math.min(...model.values()), true)
      } else {
        const prefix = `${pick(4)}`
        const after = pick(2) === 0 ? '' : key
        const expected = [...model.keys()].filter((one) => one.startsWith(prefix) && one > after).sort()
        const limit = 1 + pick(50)
        same(entries.keys(prefix, limit, after), expected.slice(0, limit))
      }
      if (pick(50) === 0) {
        same(new Set(entries.takeRemoved()), removed)
        removed.clear()
      }
      same(entries.size, model.size)
    }
    expect(entries.bytes).toBe([...model.keys()].reduce((sum, key) => sum + key.length + 1, 0))
  },
)
