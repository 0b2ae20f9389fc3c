import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import {
  openEngine,
  type Engine,
  type EngineOptions,
  type LogEntry,
  type Session,
  type Storage,
  type Store,
} from '../../src/index.js'
import { GarbageEstimate } from '../../src/engine/services/gc/garbage-estimate.js'
import { wrapped } from '../../src/engine/storage/wrapped-store.js'
import { fixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { smallSizes } from '../support/level-world.js'
import { isLong } from '../support/seed.js'

const kb = 1024
const bounds = { garbageShare: 0.5, garbageBytes: 256 * kb } as const

describe('an engine that collects automatically', () => {
  let directory: string
  let engine: Engine
  let store: Store
  let disk: FaultyDisk
  let logged: LogEntry[]

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'automatic-'))
    disk = new FaultyDisk()
    logged = []
  })

  afterEach(async () => {
    await engine.close().catch(() => undefined)
    await rm(directory, { recursive: true, force: true })
  })

  async function open(
    automaticCollection: EngineOptions['automaticCollection'],
    options: Partial<EngineOptions> & { through?: (storage: Storage) => Storage } = {},
  ): Promise<void> {
    const { through, ...others } = options
    const level: Storage = {
      open: async () => {
        const sizes = { ...smallSizes, segmentBytes: 64 * kb }
        return (store = await openLevelStore(join(directory, 's'), { durability: 'relaxed', ...sizes, disk }))
      },
    }
    engine = await openEngine({
      storage: through?.(level) ?? level,
      ...(automaticCollection !== undefined && { automaticCollection }),
      log: (entry) => logged.push(entry),
      ...others,
    })
  }

  const collections = (): LogEntry[] => logged.filter(({ message }) => message === 'a collection ended')
  const failures = (): LogEntry[] =>
    logged.filter(({ message }) => message === 'an automatic collection failed')

  async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isTrue())) await sleep(5)
  }

  /** Waits for a collection that is about to start to finish. */
  async function settled(): Promise<void> {
    await sleep(20)
    await engine.check()
  }

  async function storedBlobBytes(): Promise<number> {
    const blobs = await store.listBlobs!('', 1_000_000)
    return blobs.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  let written = 0

  /** Writes content that differs from all other content. */
  async function write(session: Session, path: string, bytes: number): Promise<void> {
    const content = Buffer.alloc(bytes, `${written++} `)
    await session.files.write({ path, content })
  }

  async function overwrite(session: Session, times: number): Promise<void> {
    for (let i = 0; i < times; i++) await write(session, '/a', 16 * kb)
  }

  test('frees overwritten contents and disk space without a call to collect()', async () => {
    await open(bounds)
    const session = await engine.sessions.create({ files: { '/kept': 'kept' } })
    await overwrite(session, 20)
    await until(() => collections().length > 0)
    expect(collections()[0]!.details['deletedBlobs']).toBeGreaterThan(5)
    const before = written
    await overwrite(session, 60)
    await settled()
    expect(collections().length).toBeGreaterThan(1)
    // The store grows by less than the written contents.
    expect(await store.size!()).toBeLessThan((written - before) * 16 * kb * 0.8)
    expect(await session.fs.promises.readFile('/kept', 'utf8')).toBe('kept')
    expect(failures()).toEqual([])
  })

  test.each(['!', 'Z', '~', '\u{1f600}'])(
    'collects nothing in a store with records of an unknown kind %s',
    async (prefix) => {
      await open(bounds)
      const session = await engine.sessions.create()
      await store.commit({ put: [[`${prefix}key`, { blob: 'of a later version' }]] })
      await write(session, '/deleted', 64 * kb)
      await session.files.delete({ path: '/deleted' })
      const blobs = await storedBlobBytes()
      const refused = { reason: 'STORE_FORMAT', details: { prefix } }
      await expect(engine.collect()).rejects.toMatchObject(refused)
      expect(await storedBlobBytes()).toBe(blobs)
      await overwrite(session, 40)
      await until(() => failures().length > 0)
      expect(failures()[0]!.details['error']).toContain(JSON.stringify(prefix))
      expect(collections()).toEqual([])
      expect(await storedBlobBytes()).toBe(blobs + 40 * 16 * kb)
      await store.commit({ del: [`${prefix}key`] })
      await engine.collect()
      expect(await storedBlobBytes()).toBeLessThan(blobs)
    },
  )

  test('reads the records of many deleted sessions together and keeps those of others', async () => {
    let reads = 0
    await open(undefined, {
      through: (storage) => ({
        open: async () => {
          const opened = await storage.open()
          return wrapped(opened, {
            scan: async (range) => {
              reads++
              return opened.scan(range)
            },
          })
        },
      }),
    })
    const sessions: Session[] = []
    for (let i = 0; i < 96; i++) sessions.push(await engine.sessions.create())
    for (const session of sessions.filter((_, i) => i % 12 < 2))
      await session.cache.put({ key: 'a', value: Buffer.from('kept'), ttlSeconds: 3600 })
    const [kept, deleted] = [sessions.filter((_, i) => i % 4 === 0), sessions.filter((_, i) => i % 4 !== 0)]
    for (const { id } of deleted) await engine.sessions.delete(id)
    reads = 0
    expect(await engine.collect()).toMatchObject({ deletedSessions: deleted.length })
    // A read for each kind and deleted session would be more.
    expect(reads).toBeLessThan(deleted.length * 8)
    const entries = await store.scan({ gte: 'c', lt: 'd', limit: 1000 })
    const withEntry = kept.filter((session) => sessions.indexOf(session) % 12 < 2)
    expect(entries.map(([key]) => key.slice(1, -2))).toEqual(withEntry.map(({ id }) => id))
  })

  test('frees deleted sessions when only the deletions are committed', async () => {
    await open(bounds)
    const sessions = await Promise.all([1, 2, 3, 4].map(async () => engine.sessions.create()))
    for (const session of sessions) await write(session, '/a', 256 * kb)
    await engine.close()
    logged = []
    await open(bounds)
    // Nothing is known about a store that was just opened, so it is examined at once.
    await engine.sessions.delete(sessions[0]!.id)
    await until(() => collections().length > 0)
    await settled()
    expect(collections().length).toBe(1)
    expect(await storedBlobBytes()).toBe(768 * kb)
    await engine.sessions.delete(sessions[1]!.id)
    await settled()
    // One of three is less than half.
    expect(collections().length).toBe(1)
    await engine.sessions.delete(sessions[2]!.id)
    await until(() => collections().length > 1)
    expect(await storedBlobBytes()).toBe(256 * kb)
  })

  test('frees the contents of a deleted checkpoint', async () => {
    await open(bounds)
    const session = await engine.sessions.create()
    await write(session, '/a', 512 * kb)
    await session.checkpoint({ checkpointLabel: 'large' })
    await write(session, '/a', 16)
    await engine.collect()
    expect(await storedBlobBytes()).toBe(512 * kb + 16)
    logged = []
    await session.deleteCheckpoint({ checkpointLabel: 'large' })
    await until(() => collections().length > 0)
    expect(await storedBlobBytes()).toBe(16)
  })

  test.runIf(isLong)('runs rarely when deletions free nothing', async () => {
    await open(bounds)
    const session = await engine.sessions.create()
    await write(session, '/a', 1024 * kb)
    await engine.collect()
    logged = []
    for (let i = 0; i < 40; i++) {
      await session.checkpoint({ checkpointLabel: 'same' })
      await session.deleteCheckpoint({ checkpointLabel: 'same' })
      await settled()
    }
    expect(collections().length).toBeGreaterThan(0)
    expect(collections().length).toBeLessThan(8)
  })

  test.each([
    ['number of bytes', { garbageShare: 0.1, garbageBytes: 1024 * kb }, 80],
    ['share', { garbageShare: 0.75, garbageBytes: 64 * kb }, 60],
  ])('does nothing before the %s is reached', async (_what, options, more) => {
    await open(options)
    const session = await engine.sessions.create()
    await write(session, '/kept', 256 * kb)
    await settled()
    await engine.collect()
    logged = []
    await overwrite(session, 20)
    await settled()
    expect(collections()).toEqual([])
    // Now both are reached.
    await overwrite(session, more)
    await until(() => collections().length > 0)
  })

  test('does nothing by default or with false', async () => {
    for (const option of [undefined, false]) {
      await open(option)
      const session = await engine.sessions.create()
      await overwrite(session, 40)
      await settled()
      expect(collections()).toEqual([])
      await engine.close()
    }
  })

  test('keeps redo if keepRedo is set', async () => {
    await open({ ...bounds, keepRedo: true })
    const session = await engine.sessions.create()
    await overwrite(session, 20)
    await until(() => collections().length > 0)
    for (const { details } of collections()) expect(details).toMatchObject({ prunedEvents: 0 })
  })

  test('takes turns with calls of collect() and check()', async () => {
    let stages: string[] = []
    await open(bounds)
    const session = await engine.sessions.create()
    for (let round = 0; round < 4; round++) {
      await overwrite(session, 15)
      stages = []
      await Promise.all([
        engine.collect({ onProgress: ({ stage }) => stages.push(stage) }),
        engine.check(),
        overwrite(session, 15),
      ])
      expect(stages).toContain('reclaim')
    }
    await settled()
    expect((await engine.check({ readData: true })).findings).toEqual([])
    expect(failures()).toEqual([])
  })

  test('stops a running collection when the engine is closed', async () => {
    let release: (() => void) | undefined
    let wasCommitting = false
    await open(bounds, {
      through: (storage) => ({
        open: async () => {
          const opened = await storage.open()
          const list = opened.listBlobs!.bind(opened)
          // The collection is blocked in its sweep.
          opened.listBlobs = async (...args) => {
            await new Promise<void>((resolve) => (release = resolve))
            return list(...args)
          }
          const close = opened.close.bind(opened)
          opened.close = () => {
            wasCommitting = release === undefined
            return close()
          }
          return opened
        },
      }),
    })
    const session = await engine.sessions.create({ files: { '/kept': 'kept' } })
    await overwrite(session, 40)
    await until(() => release !== undefined)
    let isClosed = false
    const closed = engine[Symbol.asyncDispose]().then(() => (isClosed = true))
    await sleep(30)
    expect(isClosed).toBe(false)
    release!()
    await closed
    expect(wasCommitting).toBe(false)
    expect([collections(), failures()]).toEqual([[], []])
    await open(false)
    const again = await engine.sessions.open(session.id)
    expect(await again.fs.promises.readFile('/kept', 'utf8')).toBe('kept')
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })

  test('closes while garbage is produced', async () => {
    for (let i = 0; i < 6; i++) {
      await open(bounds)
      const session = await engine.sessions.create()
      const writes = overwrite(session, 60).catch((error: unknown) => error)
      await sleep(i * 15)
      await engine.close()
      await writes
      expect(failures()).toEqual([])
      const count = collections().length
      await sleep(5)
      expect(collections().length).toBe(count)
    }
  })

  test('logs a failing disk, pauses, and collects later', async () => {
    const environment = fixedEnvironment({ stepMs: 0 })
    let nowMs = 0
    await open(bounds, { environment: { ...environment, monotonicMs: () => nowMs } })
    const session = await engine.sessions.create({ files: { '/kept': 'kept' } })
    for (let failed = 1; failed <= 3; failed++) {
      // Each automatic collection fails at its first read of the contents.
      const list = store.listBlobs!.bind(store)
      store.listBlobs = () => Promise.reject(new Error('EIO: made to fail'))
      await overwrite(session, 20)
      await until(() => failures().length === failed)
      // No other collection starts before the pause ends.
      await overwrite(session, 20)
      await sleep(30)
      expect(failures().length).toBe(failed)
      expect(failures().at(-1)!.details).toEqual({
        error: 'EIO: made to fail',
        pauseMs: 1000 * 2 ** (failed - 1),
      })
      store.listBlobs = list
      nowMs += 1000 * 2 ** (failed - 1) - 1
      await write(session, '/a', 64 * kb)
      await settled()
      expect([failures().length, collections().length]).toEqual([failed, 0])
      nowMs++
    }
    await write(session, '/a', 64 * kb)
    await until(() => collections().length > 0)
    // The next failure starts again with the short pause.
    store.listBlobs = () => Promise.reject(new Error('EIO: made to fail'))
    await overwrite(session, 60)
    await until(() => failures().length === 4)
    expect(failures().at(-1)!.details['pauseMs']).toBe(1000)
  })

  test('continues after disk writes failed during a collection', async () => {
    let failed = 0
    for (let left = 0; left < 30; left += 5) {
      await open(bounds)
      const session = await engine.sessions.create({ files: { '/kept': 'kept' } })
      disk.failAt = disk.operations + 100 + left
      await overwrite(session, 40).catch(() => undefined)
      await settled()
      failed += failures().length
      expect(await session.fs.promises.readFile('/kept', 'utf8')).toBe('kept')
      disk.failAt = Infinity
      await write(session, '/b', 10)
      expect((await engine.check({ readData: true })).findings).toEqual([])
      await engine.close()
      logged = []
    }
    expect(failed).toBeGreaterThan(0)
  })

  test('does not start while the store accepts no commits', async () => {
    let failing: FailingStorage | undefined
    await open(bounds, { through: (storage) => (failing = new FailingStorage(storage, { recovers: true })) })
    const session = await engine.sessions.create()
    await overwrite(session, 5)
    failing!.full = true
    for (let i = 0; i < 30; i++) await write(session, '/a', 16 * kb).catch(() => undefined)
    await settled().catch(() => undefined)
    expect([collections(), failures()]).toEqual([[], []])
    failing!.full = false
    await sleep(1100)
    await overwrite(session, 30)
    await until(() => collections().length > 0)
  })
})

test('has no effect in memory', async () => {
  const logged: LogEntry[] = []
  await using engine = await openEngine({
    automaticCollection: { garbageBytes: 64 * kb },
    log: (entry) => logged.push(entry),
  })
  const session = await engine.sessions.create()
  for (let i = 0; i < 20; i++) await session.files.write({ path: '/a', content: Buffer.alloc(64 * kb, i) })
  await session.files.write({ path: '/a', content: '' })
  expect(logged).toEqual([])
})

test('an estimate counts deletions during a collection, halves once after a useless one, and recovers after a useful one', () => {
  const estimate = new GarbageEstimate()
  const kept = { storeBytes: 1000, sessions: 10 }
  const deletion = { events: [], put: [['s1', { deletedAt: 1 }] as const] }
  estimate.collected({ ...kept, freedBytes: 0 })
  for (let i = 0; i < 2; i++) estimate.note(deletion)
  estimate.begin()
  for (let i = 0; i < 3; i++) estimate.note(deletion)
  expect(estimate.garbageBytes(1000)).toBe(500)
  estimate.collected({ ...kept, freedBytes: 200 })
  expect(estimate.garbageBytes(1000)).toBe(300)
  estimate.begin()
  estimate.collected({ ...kept, freedBytes: 149 })
  estimate.note(deletion)
  expect(estimate.garbageBytes(1000)).toBe(50)
  estimate.begin()
  estimate.collected({ ...kept, freedBytes: 50 })
  estimate.note(deletion)
  expect(estimate.garbageBytes(1000)).toBe(100)
})

test.each([
  [5, 'automaticCollection'],
  [null, 'automaticCollection'],
  [[], 'automaticCollection'],
  [{ garbageShar: 0.5 }, 'automaticCollection.garbageShar'],
  [{ garbageShare: 0 }, 'automaticCollection.garbageShare'],
  [{ garbageShare: 1 }, 'automaticCollection.garbageShare'],
  [{ garbageShare: Number.NaN }, 'automaticCollection.garbageShare'],
  [{ garbageShare: '0.5' }, 'automaticCollection.garbageShare'],
  [{ garbageBytes: 65_535 }, 'automaticCollection.garbageBytes'],
  [{ garbageBytes: 2 ** 53 }, 'automaticCollection.garbageBytes'],
  [{ garbageBytes: 70_000.5 }, 'automaticCollection.garbageBytes'],
  [{ keepRedo: 1 }, 'automaticCollection.keepRedo'],
])('rejects automaticCollection: %j with INVALID_ARGUMENT', async (automaticCollection, field) => {
  await expect(openEngine({ automaticCollection } as never)).rejects.toMatchObject({
    reason: 'INVALID_ARGUMENT',
    details: { field },
  })
})
