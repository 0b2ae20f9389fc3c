import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { keys, limits, prefixEnd } from '../../src/engine/ports.js'
import { memoryStorage, openEngine, type Engine, type Session, type Store } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'

describe('the ledger of written contents on a durable store', () => {
  let directory: string
  let storage: FailingStorage
  let store: Store
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'ledger-'))
    storage = new FailingStorage(levelStorage(join(directory, 'data'), { durability: 'relaxed' }), {
      recovers: true,
    })
    await open()
    session = await engine.sessions.create()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(): Promise<void> {
    engine = await openEngine({ storage: { open: async () => (store = await storage.open()) } })
  }

  async function records(): Promise<number> {
    const gte = keys.everyWrittenBlobs()
    return (await store.scan({ gte, lt: prefixEnd(gte), limit: 1000 })).length
  }

  /** Writes this many contents of 10 bytes, each of them new. */
  async function write(from: number, count: number): Promise<void> {
    for (let n = from; n < from + count; n++)
      await session.files.write({ path: `/${n}`, content: `${n}`.padStart(10) })
  }

  test('has one record for several commits, and counts each of their contents', async () => {
    const { blobsPerSharedRecord: shared } = limits
    await write(0, 3 * shared)
    expect(await records()).toBe(3)
    await write(0, 1)
    expect(await records()).toBe(4)
    const expected = { objectCount: 3 * shared, storedBytes: 30 * shared, logicalBytes: 30 * shared + 10 }
    expect(await engine.usage.metrics()).toMatchObject(expected)
    await engine.close()
    await open()
    expect(await engine.usage.metrics()).toMatchObject(expected)
  })

  test('has a record of its own for a commit with many contents', async () => {
    await write(0, 1)
    const batch = Array.from({ length: 20 }, (_, n) => ({ write: { path: `/b${n}`, content: `b${n}` } }))
    await session.files.batch(batch)
    await write(1, 1)
    expect(await records()).toBe(2)
    expect(await engine.usage.metrics()).toMatchObject({ objectCount: 22 })
  })

  test('forgets contents that a collection deletes, and counts those that are written meanwhile', async () => {
    await write(0, 3)
    await session.files.delete({ path: '/0' })
    await session.files.delete({ path: '/1' })
    const collecting = engine.collect({ keepRedo: false })
    await write(3, 2)
    await collecting
    expect(await engine.usage.metrics()).toMatchObject({ objectCount: 3, storedBytes: 30 })
    await write(0, 1)
    expect(await engine.usage.metrics()).toMatchObject({ objectCount: 4, storedBytes: 40 })
    await engine.close()
    await open()
    expect(await engine.usage.metrics()).toMatchObject({ objectCount: 4, storedBytes: 40 })
  })

  test('counts a content once as stored and once as deleted, and each write of a stored one', async () => {
    await write(0, 8)
    await write(0, 2)
    await session.files.delete({ path: '/0' })
    await engine.collect()
    const stored = { objectCount: 7, storedBytes: 70, logicalBytes: 80 }
    expect(await engine.usage.metrics()).toMatchObject(stored)
    const gte = keys.everyWrittenBlobs()
    const found = await store.scan({ gte, lt: prefixEnd(gte), limit: 1000 })
    const gone = found.flatMap(([, json]) => (JSON.parse(json) as { gone: unknown[][] }).gone)
    expect(gone.map(([, , bytes]) => bytes)).toEqual([10])
  })

  test.each(['fail', 'pass'] as const)(
    'leaves out the contents of a commit that did not happen (%s)',
    async (how) => {
      await write(0, 2)
      storage.next = how
      await expect(write(2, 1)).rejects.toMatchObject({ name: 'EngineError' })
      storage.next = 'commit'
      session = await engine.sessions.open(session.id)
      await write(3, 2)
      expect(await engine.usage.metrics()).toMatchObject({ objectCount: 4, storedBytes: 40 })
    },
  )

  test.each([
    { passes: 1, place: 'first' },
    { passes: 2, place: 'first' },
    { passes: 2, place: 'last' },
  ])(
    'leaves out the contents of $passes commits that did not happen, $place of several',
    async ({ passes, place }) => {
      const isPassed = (n: number): boolean => (place === 'first' ? n < passes : n >= 4 - passes)
      const others = await Promise.all(Array.from({ length: 3 }, () => engine.sessions.create()))
      await write(0, 1)
      const outcomes: Promise<boolean>[] = []
      for (const [n, other] of [session, ...others].entries()) {
        if (isPassed(n)) storage.next = 'pass'
        const written = other.files.write({ path: '/new', content: `new ${n}`.padStart(10) })
        outcomes.push(
          written.then(
            () => true,
            () => false,
          ),
        )
      }
      expect(await Promise.all(outcomes)).toEqual([0, 1, 2, 3].map((n) => !isPassed(n)))
      session = await engine.sessions.open(session.id)
      await write(0, 1)
      const expected = { objectCount: 5 - passes, storedBytes: 10 * (5 - passes) }
      expect(await engine.usage.metrics()).toMatchObject(expected)
      await engine.close()
      await open()
      expect(await engine.usage.metrics()).toMatchObject(expected)
    },
  )
})

test('a collection changes no past usage: contents count from their first write to their deletion', async () => {
  const startMs = Date.UTC(2025, 0, 1)
  const hourMs = 3_600_000
  const environment = fixedEnvironment({ startMs, stepMs: 0 })
  await using engine = await openEngine({ storage: memoryStorage({ durable: true }), environment })
  const session = await engine.sessions.create()
  const write = (path: string, content: string): Promise<unknown> => session.files.write({ path, content })
  const usage = async (from: number, to: number): Promise<number> => {
    const [windowStart, windowEnd] = [from, to].map((hour) => new Date(startMs + hour * hourMs).toISOString())
    const { storageGbMonth } = await engine.usage.get({ windowStart: windowStart!, windowEnd: windowEnd! })
    return Math.round((storageGbMonth * 1e9 * 30 * 24 * hourMs) / hourMs)
  }
  await write('/a', 'a'.repeat(1000))
  await write('/gone', 'g'.repeat(100))
  environment.advance(hourMs)
  // This makes another record, in which the content of /a occurs again.
  await engine.collect()
  await write('/b', 'a'.repeat(1000))
  await write('/c', 'c'.repeat(10))
  environment.advance(hourMs)
  const before = await Promise.all([usage(0, 1), usage(1, 2), usage(0, 2)])
  expect(before).toEqual([1100, 1110, 2210])
  await session.files.delete({ path: '/gone' })
  for (let round = 0; round < 2; round++) {
    await engine.collect()
    expect(await Promise.all([usage(0, 1), usage(1, 2), usage(0, 2)])).toEqual(before)
    expect(await usage(2, 3)).toBe(1010)
  }
  expect(await engine.usage.metrics()).toMatchObject({
    objectCount: 2,
    storedBytes: 1010,
    logicalBytes: 2010,
  })
})
