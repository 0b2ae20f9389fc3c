import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  memoryStorage,
  openEngine,
  type Engine,
  type EngineScope,
  type Session,
  type Storage,
  type Store,
  type UsageRequest,
} from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { storages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const hour = 3_600_000
const day = 24 * hour
const monthHours = 30 * 24

describe.each(storages)('usage on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let store: Store
  let environment: FixedEnvironment
  let engine: Engine
  let acme: EngineScope
  let start: number

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'usage-'))
    const made = makeStorage(directory)
    storage = { open: async () => (store = await made.open()) }
    environment = fixedEnvironment({ stepMs: 0 })
    start = environment.wallClockMs()
    await open()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(): Promise<void> {
    engine = await openEngine({ storage, environment })
    acme = engine.as({ tenant: 'acme', principal: 'ann' })
  }

  async function reload(): Promise<void> {
    if (!lasting) return
    await engine.close()
    await open()
  }

  const time = (ms: number): string => new Date(start + ms).toISOString()
  const window = (from: number, to: number): UsageRequest => ({
    windowStart: time(from),
    windowEnd: time(to),
  })
  const at = (ms: number): void => environment.advance(start + ms - environment.wallClockMs())

  async function threeDays(): Promise<Session> {
    // Day 1: a session for six hours, with a million bytes from its second hour on.
    const session = await acme.sessions.create()
    at(hour)
    await session.files.write({ path: '/a', content: Buffer.alloc(1_000_000, 'a') })
    acme.usage.sent(2_000_000)
    at(5 * hour)
    await session.checkpoint({ checkpointLabel: 'one' })
    at(6 * hour)
    await session.files.read({ path: '/a', length: 1 })
    // Day 2: a fork for three hours with another half a million bytes, which is then deleted.
    at(day)
    await reload()
    const parent = await acme.sessions.open(session.id)
    const fork = await parent.fork()
    at(day + 2 * hour)
    await fork.files.batch([
      { write: { path: '/b', content: Buffer.alloc(300_000, 'b') } },
      { write: { path: '/c', content: Buffer.alloc(200_000, 'c') } },
    ])
    at(day + 3 * hour)
    await fork.delete()
    acme.usage.sent(500_000)
    acme.usage.sent(500_000)
    // Day 3: another tenant.
    at(2 * day)
    await engine.as({ tenant: 'other' }).sessions.create({ files: { '/a': Buffer.alloc(1_000_000, 'a') } })
    at(3 * day)
    return parent
  }

  test('of collected sessions is kept, in constant space', async () => {
    await acme.sessions.create()
    const made = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const session = await acme.sessions.create({ initialTags: { n: `${i}` } })
        environment.advance(hour / 4)
        await session.delete()
        environment.advance(-hour / 8)
      }
    }
    await made(5)
    at(5 * hour)
    await made(3)
    await engine
      .as({ tenant: 'other' })
      .sessions.create()
      .then((session) => session.delete())
    at(day)
    const records = (prefix: string) =>
      store.scan({ gte: prefix, lt: `${prefix}\u{10ffff}`, limit: 1000 }).then(({ length }) => length)
    const usage = async () =>
      Promise.all(
        [window(0, day), window(0, 5 * hour), window(5 * hour, day)].map((asked) => acme.usage.get(asked)),
      )
    const before = await usage()
    expect(before.map(({ sessionHours }) => sessionHours)).toEqual([2, 1.25, 0.75])
    expect(await records('s')).toBe(10)
    expect(await engine.collect()).toMatchObject({ deletedSessions: 9 })
    expect(await records('s')).toBe(1)
    const sums = await records('U')
    expect(sums).toBeLessThan(9)
    await reload()
    for (const [index, { sessionHours }] of (await usage()).entries())
      expect(sessionHours).toBeCloseTo(before[index]!.sessionHours, 9)
    at(5 * hour)
    await made(1)
    at(day)
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    expect(await records('U')).toBe(sums)
    expect((await acme.usage.get(window(0, day))).sessionHours).toBeCloseTo(2.25, 9)
  })

  test('of three days is exact, before and after reopening', async () => {
    const { id } = await threeDays()
    for (let round = 0; round < 2; round++) {
      const whole = await acme.usage.get(window(0, 3 * day))
      expect(whole).toEqual({
        tenantId: 'acme',
        ...window(0, 3 * day),
        granularity: 'day',
        aggregationVersion: 1,
        sessionHours: 6 + 3,
        storageGbMonth: expect.closeTo(
          (1_000_000 * (72 - 1) + 500_000 * (72 - 26)) / 1e9 / monthHours,
          15,
        ) as number,
        egressGb: 3_000_000 / 1e9,
      })
      // Windows whose bounds are in the middle of sessions.
      expect(await acme.usage.get({ ...window(2 * hour, 4 * hour), granularity: 'hour' })).toMatchObject({
        granularity: 'hour',
        sessionHours: 2,
        storageGbMonth: expect.closeTo((1_000_000 * 2) / 1e9 / monthHours, 15) as number,
        egressGb: 0,
      })
      expect(await acme.usage.get(window(day + hour, day + 2.5 * hour))).toMatchObject({
        sessionHours: 1.5,
        storageGbMonth: expect.closeTo((1_000_000 * 1.5 + 500_000 * 0.5) / 1e9 / monthHours, 15) as number,
      })
      expect(await acme.usage.get(window(day, 2 * day))).toMatchObject({ egressGb: 1_000_000 / 1e9 })
      expect(await acme.usage.get(window(-day, 0))).toMatchObject({
        sessionHours: 0,
        storageGbMonth: 0,
        egressGb: 0,
      })
      expect(await engine.as({ tenant: 'other' }).usage.get(window(2 * day, 3 * day))).toMatchObject({
        tenantId: 'other',
        sessionHours: 0,
        storageGbMonth: expect.closeTo((1_000_000 * 24) / 1e9 / monthHours, 15) as number,
        egressGb: 0,
      })
      expect(await engine.usage.get(window(0, 3 * day))).toMatchObject({ sessionHours: 0, storageGbMonth: 0 })
      const session = await acme.sessions.open(id)
      expect(await session.analytics()).toMatchObject({
        sessionId: id,
        timeToFirstWriteMs: hour,
        totalFileMutations: 1,
        checkpointCount: 1,
        restoreCount: 0,
        completionTime: '',
      })
      expect((await session.get()).lastActivityAt).toBe(time(6 * hour))
      await reload()
    }
  })

  test('is refused by a closed engine', async () => {
    await engine.close()
    await expect(acme.usage.metrics()).rejects.toEqual(refused('STORE_CLOSED'))
    await open()
  })

  test('counts a content once for each tenant', async () => {
    const content = Buffer.alloc(1000, 'x')
    expect(await acme.usage.metrics()).toEqual({
      objectCount: 0,
      storedBytes: 0,
      logicalBytes: 0,
      dedupRatio: 1,
    })
    const session = await acme.sessions.create({ files: { '/a': content } })
    await Promise.all([
      session.files.write({ path: '/b', content }),
      session.files.write({ path: '/c', content }),
    ])
    await session.fork()
    const other = engine.as({ tenant: 'other' })
    await other.sessions.create({ files: { '/a': content } })
    await reload()
    await (await acme.sessions.open(session.id)).files.write({ path: '/d', content })
    const exact = { objectCount: 1, storedBytes: 1000, logicalBytes: 4000, dedupRatio: 4 }
    const severalTimes = { objectCount: 4, storedBytes: 4000, logicalBytes: 4000, dedupRatio: 1 }
    const expected = name === 'memory' ? severalTimes : exact
    expect(await acme.usage.metrics()).toEqual(expected)
    expect(await engine.as({ tenant: 'other' }).usage.metrics()).toMatchObject({
      objectCount: 1,
      storedBytes: 1000,
      dedupRatio: 1,
    })
  })

  test('counts a content as often as one commit contains it', async () => {
    const session = await acme.sessions.create()
    const content = Buffer.alloc(1000, 'x')
    await session.files.batch(['/a', '/b', '/c'].map((path) => ({ write: { path, content } })))
    expect(await acme.usage.metrics()).toMatchObject({ logicalBytes: 3000 })
    // Split into equal blocks that are stored first.
    const blocks = (limits.importCommitBytes / limits.blockBytes) * 2
    await session.files.write({ path: '/d', content: Buffer.alloc(blocks * limits.blockBytes) })
    const { logicalBytes } = await acme.usage.metrics()
    expect(logicalBytes).toBe(3000 + blocks * limits.blockBytes)
  })

  test.each([
    undefined,
    {},
    { windowStart: '2026-01-01T00:00:00Z' },
    { windowStart: '2026-01-01T00:00:00Z', windowEnd: '2026-01-01T00:00:00Z' },
    { windowStart: '2026-01-02T00:00:00Z', windowEnd: '2026-01-01T00:00:00Z' },
    { windowStart: '2026-01-01T00:00:00Z', windowEnd: '2026-01-02T00:00:00Z', granularity: 'week' },
    { windowStart: '2026-01-01', windowEnd: '2026-01-02T00:00:00Z' },
  ])('rejects %j', async (request) => {
    await expect(acme.usage.get(request as never)).rejects.toEqual(refused('INVALID_ARGUMENT'))
    expect(() => acme.usage.sent(-1)).toThrow(refused('INVALID_ARGUMENT'))
  })

  test('analytics count each kind of change once', async () => {
    const session = await acme.sessions.create()
    expect(await session.analytics()).toMatchObject({ timeToFirstWriteMs: 0, totalFileMutations: 0 })
    environment.advance(1500)
    await session.checkpoint({ checkpointLabel: 'c' })
    await session.files.createDirectory({ path: '/d' })
    environment.advance(500)
    await session.fs.promises.writeFile('/d/a', 'x')
    await session.files.batch([
      { write: { path: '/b', content: '' } },
      { write: { path: '/c', content: '' } },
    ])
    await expect(session.files.delete({ path: '/none' })).rejects.toEqual(refused('PATH_NOT_FOUND'))
    const fork = await session.fork()
    await session.restore({ checkpointLabel: 'c' })
    const completionTime = new Date(environment.wallClockMs()).toISOString()
    await session.commit({ message: 'one' })
    environment.advance(1000)
    await session.commit({ message: 'two' })
    const expected = {
      sessionId: session.id,
      timeToFirstWriteMs: 1500,
      totalFileMutations: 3,
      checkpointCount: 1,
      restoreCount: 1,
      completionTime,
    }
    for (let round = 0; round < 2; round++) {
      expect(await (await acme.sessions.open(session.id)).analytics()).toMatchObject(expected)
      expect(await (await acme.sessions.open(fork.id)).analytics()).toMatchObject({
        timeToFirstWriteMs: 0,
        totalFileMutations: 0,
        checkpointCount: 0,
      })
      await reload()
    }
  })

  test('analytics continue from the stored counts', async () => {
    const session = await acme.sessions.create()
    const write = (count: number): Promise<unknown> =>
      Promise.all(
        Array.from({ length: count }, (_, i) => session.files.write({ path: '/a', content: `${i}` })),
      )
    await write(2500)
    expect((await session.analytics()).totalFileMutations).toBe(2500)
    await write(10)
    await reload()
    expect((await (await acme.sessions.open(session.id)).analytics()).totalFileMutations).toBe(2510)
  })

  test('frequent requests for analytics count every change once', async () => {
    const session = await acme.sessions.create({ files: { '/a': '' } })
    for (let round = 0; round < 5; round++) {
      const writes = Array.from({ length: 500 }, (_, i) => session.files.setMode({ path: '/a', mode: i % 2 }))
      await Promise.all(writes)
      await session.analytics()
    }
    await reload()
    const read: number[] = []
    const events = store.events.bind(store)
    store.events = (sessionId, range) => {
      read.push(range.from)
      return events(sessionId, range)
    }
    const again = await acme.sessions.open(session.id)
    read.length = 0
    expect((await again.analytics()).totalFileMutations).toBe(2500)
    // Durable storage does not reread events that were counted; in memory there are none to read.
    expect(Math.min(...read)).toBeGreaterThan(2000)
  })

  test('stores a read as activity at most once a minute, and on close', async () => {
    const session = await acme.sessions.create({ files: { '/a': '' } })
    environment.advance(10_000)
    await session.files.read({ path: '/a' })
    const readAt = new Date(environment.wallClockMs()).toISOString()
    await reload()
    environment.advance(5_000)
    expect((await acme.sessions.get(session.id)).lastActivityAt).toBe(readAt)
    expect((await acme.sessions.list()).sessions[0]!.lastActivityAt).toBe(readAt)
  })
})

test('includes sent bytes in every request while they are being stored', async () => {
  const inner = memoryStorage({ durable: true })
  const slow = async (): ReturnType<Storage['open']> => {
    const store = await inner.open()
    const get = store.get.bind(store)
    const later = async (key: string): Promise<string | undefined> => {
      for (let turn = 0; turn < 20; turn++) await nextTurn()
      return get(key)
    }
    return Object.assign(store, { get: later })
  }
  const engine = await openEngine({ storage: { open: slow } })
  engine.usage.sent(1e9)
  const request = { windowStart: '2000-01-01T00:00:00Z', windowEnd: '2100-01-01T00:00:00Z' }
  const answers = await Promise.all([engine.usage.get(request), engine.usage.get(request)])
  expect(answers.map(({ egressGb }) => egressGb)).toEqual([1, 1])
  await engine.close()
})

test.each(['fail', 'lose'] as const)(
  'bytes that were sent count once after a commit that failed (%s)',
  async (failure) => {
    const environment = fixedEnvironment({ stepMs: 0 })
    const storage = new FailingStorage(memoryStorage({ durable: true }), { recovers: true })
    await using engine = await openEngine({ storage, environment })
    const start = environment.wallClockMs()
    const [windowStart, windowEnd] = [start, start + day].map((time) => new Date(time).toISOString())
    const sent = async (): Promise<number> =>
      (await engine.usage.get({ windowStart: windowStart!, windowEnd: windowEnd! })).egressGb * 1e9
    engine.usage.sent(1000)
    expect(await sent()).toBe(1000)
    engine.usage.sent(200)
    storage.next = failure
    await sent()
    storage.next = 'commit'
    environment.advance(60_000)
    engine.usage.sent(30)
    await engine.sessions.create()
    for (let round = 0; round < 3; round++) expect(await sent()).toBe(1230)
    environment.advance(60_000)
    engine.usage.sent(4)
    expect(await sent()).toBe(1234)
  },
)

test('bytes that were sent count for the windows that include the start of their minute', async () => {
  const startMs = Date.UTC(2025, 0, 1)
  const environment = fixedEnvironment({ startMs, stepMs: 0 })
  await using engine = await openEngine({ storage: memoryStorage({ durable: true }), environment })
  for (let minute = 0; minute < 4; minute++) {
    environment.advance(10_000)
    engine.usage.sent(10 ** minute)
    environment.advance(20_000)
    engine.usage.sent(10 ** minute)
    environment.advance(30_000)
  }
  const sent = async (from: number, to: number): Promise<number> => {
    const [windowStart, windowEnd] = [from, to].map((second) =>
      new Date(startMs + second * 1000).toISOString(),
    )
    return (await engine.usage.get({ windowStart: windowStart!, windowEnd: windowEnd! })).egressGb * 1e9
  }
  expect(await sent(0, 240)).toBe(2222)
  expect(await sent(60, 180)).toBe(220)
  expect(await sent(60, 181)).toBe(2220)
  expect(await sent(59, 180)).toBe(220)
  expect(await sent(61, 180)).toBe(200)
  expect(await sent(61, 120)).toBe(0)
})
