/** Wall clocks that jump lose no data, and times are correct again once the clock is. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  limits,
  openEngine,
  type Engine,
  type EngineOptions,
  type Session,
  type Storage,
  type Store,
} from '../../src/index.js'
import { keys } from '../../src/engine/ports.js'
import { fixedEnvironment } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { storages } from '../support/storages.js'
import { addSetBack, nextEventTime, shownTime } from '../../src/engine/session/history/event-times.js'
import { ClockSpans } from '../../src/engine/session/table/clock-spans.js'
import { LastUses } from '../../src/engine/session/table/last-uses.js'
import { isExpired, noteUse } from '../../src/engine/session/table/unused.js'
import type { Core } from '../../src/engine/session/core.js'
import type { SessionRecord } from '../../src/engine/records/session.js'

const minute = 60_000
const hour = 60 * minute
const year = 365 * 24 * hour
const start = Date.UTC(2030, 0, 1)

describe.each(storages)('a wall clock that jumps, on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let store: Store
  let engine: Engine
  let wall: number
  let monotonic: number

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'clocks-'))
    const made = makeStorage(directory)
    storage = { open: async () => (store = await made.open()) }
    wall = start
    monotonic = 0
    await open()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(options: EngineOptions = {}): Promise<void> {
    const environment = { ...fixedEnvironment(), wallClockMs: () => wall, monotonicMs: () => monotonic }
    engine = await openEngine({ storage, environment, ...options })
  }

  /** Simulates another process, whose monotonic clock starts anew. */
  async function reopen(options: EngineOptions = {}): Promise<void> {
    await engine.close()
    monotonic = 1e6
    await open(options)
  }

  function pass(ms: number): void {
    wall += ms
    monotonic += ms
  }

  const ids = async (): Promise<string[]> => (await engine.sessions.list()).sessions.map(({ id }) => id)

  const timesOf = async (session: Session): Promise<number[]> =>
    (await session.events.list()).events.map(({ timestamp }) => Date.parse(timestamp) - start)

  const write = (session: Session, content: string): Promise<void> =>
    session.files.write({ path: '/a', content })

  describe('deletes no session', () => {
    test.each([year, -year])('before its time to live has passed in this process: by %i ms', async (jump) => {
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      wall += jump
      expect(await ids()).toEqual([session.id])
      expect((await engine.collect()).deletedSessions).toBe(0)
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('kept')
      wall -= jump
      pass(59 * minute)
      expect((await engine.collect()).deletedSessions).toBe(0)
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('kept')
    })

    test('while a bundle of it is read', async () => {
      const content = Uint8Array.from({ length: 2 ** 22 }, (_, index) => index >> 14)
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': content } })
      let pieces = 0
      for await (const _ of session.exportBundle()) {
        pieces++
        pass(59 * minute)
        expect((await engine.collect()).deletedSessions).toBe(0)
      }
      expect(pieces).toBeGreaterThan(2)
      expect(await ids()).toEqual([session.id])
    })

    test('that was imported while the clock was slow', async () => {
      await reopen({ sessionTtlSeconds: 3600 })
      const session = await engine.sessions.create({ files: { '/a': 'kept' } })
      const chunks: Uint8Array[] = []
      for await (const chunk of session.exportBundle()) chunks.push(chunk)
      pass(hour)
      wall -= year
      const { id } = await engine.sessions.importBundle(Buffer.concat(chunks))
      wall += year
      pass(hour - 1)
      expect(await ids()).toEqual([id])
      await engine.collect()
      pass(1)
      expect(await ids()).toEqual([])
    })

    test('before its time to live has passed since a use by a clock that was ahead', async () => {
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      pass(50 * minute)
      wall += year
      await session.fs.promises.readFile('/a')
      wall -= year
      pass(50 * minute)
      expect(await ids()).toEqual([session.id])
      await session.fs.promises.readFile('/a')
      expect(Date.parse((await session.get()).lastActivityAt)).toBe(wall)
      pass(59 * minute)
      expect(await ids()).toEqual([session.id])
      pass(minute)
      expect(await ids()).toEqual([])
    })

    test('and also does not keep an unused one forever after a clock that was ahead', async () => {
      const session = await engine.sessions.create({ ttlSeconds: 3600 })
      wall += year
      await write(session, 'a')
      wall -= year
      expect(await ids()).toEqual([session.id])
      pass(59 * minute)
      expect(await ids()).toEqual([session.id])
      pass(minute)
      expect(await ids()).toEqual([])
    })

    test.each([
      ['a read', 'stood still', 0],
      ['a read', 'was slow', 4 * minute],
      ['a write', 'stood still', 0],
      ['a write', 'was slow', 4 * minute],
    ])('after %s while the clock %s for a few minutes', async (use, _, slow) => {
      const session = await engine.sessions.create({ ttlSeconds: 60, files: { '/a': 'kept' } })
      wall -= slow
      for (let passed = 0; passed < 4 * minute; passed += minute / 2) {
        monotonic += minute / 2
        if (slow > 0) wall += minute / 2
        if (use === 'a read') await session.fs.promises.readFile('/a')
        else await write(session, 'kept')
      }
      wall = start + 4 * minute
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('kept')
      pass(minute)
      expect(await ids()).toEqual([])
    })

    test('that is used often after a clock that was ahead by some minutes', async () => {
      const session = await engine.sessions.create({ ttlSeconds: 60, files: { '/a': 'kept' } })
      wall += limits.clockHoldMs + 1000
      await write(session, 'a')
      wall -= limits.clockHoldMs + 1000
      for (let i = 0; i < 10; i++) {
        pass(minute / 2)
        expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a')
      }
    })

    test.runIf(lasting)(
      'soon after an opening by a clock that is ahead by a little less than its time to live',
      async () => {
        const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
        wall += hour - 1000
        await reopen()
        pass(2000)
        expect(await ids()).toEqual([session.id])
        expect((await engine.collect()).deletedSessions).toBe(0)
        wall -= hour - 1000
        pass(59 * minute)
        expect(await ids()).toEqual([session.id])
      },
    )

    test('whose time to live is shorter than a jump that was only noticed with a later one', async () => {
      const session = await engine.sessions.create({ ttlSeconds: 60, files: { '/a': 'kept' } })
      pass(1000)
      await session.fs.promises.readFile('/a')
      wall += minute + hour
      expect(await ids()).toEqual([session.id])
      wall -= hour
      expect(await ids()).toEqual([session.id])
      pass(minute - 1)
      expect(await ids()).toEqual([session.id])
      pass(1)
      expect(await ids()).toEqual([])
    })

    test.runIf(!lasting)('if many others were used too while the clock was slow', async () => {
      lowerBound(limits, 'lastUses', 100)
      pass(limits.expirySecondLookMs)
      wall -= year
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      await write(session, 'b')
      for (let i = 0; i <= limits.lastUses; i++)
        await write(await engine.sessions.create({ ttlSeconds: 3600 }), 'other')
      pass(59 * minute)
      wall += year
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('b')
      pass(60 * minute)
      await expect(session.get()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    })

    test.runIf(lasting)('if it is opened by a clock that is ahead and soon corrected', async () => {
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      pass(minute)
      wall += year
      await reopen()
      expect(await ids()).toEqual([session.id])
      expect((await engine.collect()).deletedSessions).toBe(0)
      pass(limits.expirySecondLookMs - 1)
      expect((await engine.collect()).deletedSessions).toBe(0)
      wall -= year
      pass(limits.expirySecondLookMs)
      expect((await engine.collect()).deletedSessions).toBe(0)
      await engine.sessions.open(session.id)
    })

    test.runIf(lasting)(
      'if it was changed while the clock was years slow, and is opened afterwards',
      async () => {
        const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
        pass(50 * minute)
        wall = 0
        await reopen()
        await write(await engine.sessions.open(session.id), 'b')
        wall = start + 51 * minute
        await reopen()
        for (const ms of [limits.expirySecondLookMs, 49 * minute]) {
          expect(await ids()).toEqual([session.id])
          pass(ms)
          expect((await engine.collect()).deletedSessions).toBe(0)
        }
        pass(minute)
        expect(await ids()).toEqual([])
      },
    )

    test.runIf(lasting)('if the clock stays ahead and the session is in use', async () => {
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      wall += year
      await reopen()
      const again = await engine.sessions.open(session.id)
      await write(again, 'b')
      pass(59 * minute)
      expect(await again.fs.promises.readFile('/a', 'utf8')).toBe('b')
      pass(59 * minute)
      expect(await ids()).toEqual([session.id])
    })
  })

  describe.runIf(lasting)('is corrected after a session was used:', () => {
    const lastActivity = async (session: Session): Promise<number> =>
      Date.parse((await engine.sessions.list()).sessions.find(({ id }) => id === session.id)!.lastActivityAt)

    const readFile = (session: Session): Promise<string> => session.fs.promises.readFile('/a', 'utf8')

    const writeNew = (session: Session): Promise<void> => write(session, String(wall))

    test.each([
      ['a read', readFile, [writeNew, readFile]],
      ['a read', readFile, [readFile, writeNew]],
      ['a write', writeNew, [writeNew, readFile]],
    ] as const)('%s counts until the next use, which replaces its time', async (_, use, later) => {
      let session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      wall += year
      await use(session)
      wall -= year
      await reopen()
      pass(59 * minute)
      expect(await ids()).toEqual([session.id])
      pass(minute)
      session = await engine.sessions.open(session.id)
      for (const next of later) {
        pass(2 * minute)
        await next(session)
        expect(await lastActivity(session)).toBe(wall)
        await reopen()
        expect(await lastActivity(session)).toBe(wall)
        session = await engine.sessions.open(session.id)
        expect(await lastActivity(session)).toBe(wall)
      }
      pass(hour)
      expect(await ids()).toEqual([])
    })

    test.each([
      ['a read', readFile],
      ['a write', writeNew],
    ] as const)('%s is followed by the full time to live from the opening on', async (_, use) => {
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      wall += year
      await use(session)
      wall -= year
      await reopen()
      expect(await ids()).toEqual([session.id])
      pass(59 * minute)
      expect(await ids()).toEqual([session.id])
      pass(minute)
      expect(await ids()).toEqual([])
    })

    test('a read with a corrected time is stored before the engine is closed', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'kept' } })
      const storedRead = (): Promise<string | undefined> => store.get(keys.lastRead(session.id))
      wall += year
      await readFile(session)
      await expect.poll(storedRead).toBe(String(wall))
      wall -= year
      await readFile(session)
      await expect.poll(storedRead).toBe(String(wall))
    })
  })

  describe.runIf(lasting)('does not delete a session in use that is read into memory again', () => {
    const ttlSeconds = 3600
    let session: Session
    let other: Session

    beforeEach(async () => {
      session = await engine.sessions.create({ ttlSeconds, files: { '/a': 'kept' } })
      other = await engine.sessions.create()
    })

    /** Drops all sessions from memory, as an eviction does. */
    async function drop(): Promise<void> {
      vi.spyOn(store, 'commit').mockRejectedValueOnce(new Error('the disk failed'))
      await expect(write(other, String(wall))).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    }

    async function expectKept(): Promise<void> {
      await drop()
      expect(await ids()).toEqual([session.id, other.id])
      await drop()
      expect((await engine.collect()).deletedSessions).toBe(0)
      expect(await ids()).toEqual([session.id, other.id])
    }

    test('after a write by a clock that was ahead, and reads since then', async () => {
      wall += 24 * hour
      await write(session, 'b')
      wall -= 24 * hour
      for (let i = 0; i < 5; i++) {
        pass(20 * minute)
        await session.files.read({ path: '/a' })
      }
      pass(59 * minute)
      await expectKept()
      pass(minute)
      await drop()
      expect(await ids()).toEqual([other.id])
    })

    test('after a read by a clock that was slow', async () => {
      pass(30 * minute)
      wall -= 24 * hour
      pass(10 * minute)
      await session.files.read({ path: '/a' })
      pass(10 * minute)
      wall += 24 * hour
      pass(49 * minute)
      await expectKept()
      pass(minute)
      await drop()
      expect(await ids()).toEqual([other.id])
    })
  })

  test.runIf(lasting)(
    'is checked twice before sessions that had expired at the opening are deleted',
    async () => {
      const session = await engine.sessions.create({ ttlSeconds: 3600 })
      const short = await engine.sessions.create({ ttlSeconds: 60 })
      wall += 2 * hour
      await reopen()
      expect(await ids()).toEqual([session.id, short.id])
      pass(minute)
      expect(await ids()).toEqual([session.id])
      pass(limits.expirySecondLookMs - minute)
      expect((await engine.collect()).deletedSessions).toBe(2)
      expect(await ids()).toEqual([])
    },
  )

  describe('keeps the times of events', () => {
    test('in order, and correct again once the clock is', async () => {
      const session = await engine.sessions.create()
      pass(minute)
      await write(session, 'a')
      wall += year
      await write(session, 'b')
      pass(minute)
      await write(session, 'c')
      expect(await timesOf(session)).toEqual([0, minute, year + minute, year + 2 * minute])
      wall -= year
      pass(minute)
      await write(session, 'd')
      pass(minute)
      await write(session, 'e')
      const shown = [0, minute, 3 * minute, 3 * minute, 3 * minute, 4 * minute]
      expect(await timesOf(session)).toEqual(shown)
      const followed: number[] = []
      for await (const { timestamp } of session.events.follow()) {
        followed.push(Date.parse(timestamp) - start)
        if (followed.length === shown.length) break
      }
      expect(followed).toEqual(shown)
      expect(await session.events.verify()).toMatchObject({ eventCount: shown.length })
      if (lasting) await reopen()
      const again = lasting ? await engine.sessions.open(session.id) : session
      expect(await timesOf(again)).toEqual(shown)
      expect(Date.parse((await again.get()).lastActivityAt) - start).toBe(4 * minute)
      expect(await again.analytics()).toMatchObject({ timeToFirstWriteMs: minute })
    })

    test('consistent with time filters', async () => {
      const session = await engine.sessions.create()
      for (const jump of [0, year, 0, 2 * year, -year, 0]) {
        pass(10 * minute)
        wall += jump
        await write(session, String(jump))
        wall -= jump
      }
      const shown = await timesOf(session)
      expect(shown).toEqual([...shown].sort((a, b) => a - b))
      expect(shown.at(-1)).toBe(60 * minute)
      for (const from of [-year, 0, 10 * minute, 15 * minute, 35 * minute, hour, year]) {
        const startTime = new Date(start + from).toISOString()
        const { events } = await session.events.list({ startTime })
        expect(events.map(({ timestamp }) => Date.parse(timestamp) - start)).toEqual(
          shown.filter((time) => time >= from),
        )
        const before = (await session.events.list({ endTime: startTime })).events
        expect(before).toHaveLength(shown.length - events.length)
      }
    })

    test("at the newest event's time after a small step back", async () => {
      const session = await engine.sessions.create()
      pass(limits.clockHoldMs)
      await write(session, 'a')
      wall -= limits.clockHoldMs
      await write(session, 'b')
      expect(await timesOf(session)).toEqual([0, limits.clockHoldMs, limits.clockHoldMs])
      wall -= 1
      await write(session, 'c')
      expect(await timesOf(session)).toEqual([-1, -1, -1, -1])
    })

    test('and does not make a session appear unused after a small step back', async () => {
      const session = await engine.sessions.create()
      await write(session, 'a')
      pass(2 * minute)
      await session.files.read({ path: '/a' })
      wall -= minute
      await write(session, 'b')
      expect(Date.parse((await session.get()).lastActivityAt) - start).toBe(2 * minute)
    })

    test('unchanged in a bundle', async () => {
      const session = await engine.sessions.create()
      wall += year
      await write(session, 'a')
      wall -= year
      pass(minute)
      await write(session, 'b')
      const chunks: Uint8Array[] = []
      for await (const chunk of session.exportBundle()) chunks.push(chunk)
      const copy = await engine.sessions.importBundle(Buffer.concat(chunks))
      expect(await timesOf(copy)).toEqual(await timesOf(session))
      expect(await timesOf(copy)).toEqual([0, minute, minute])
    })
  })

  test.each([NaN, Infinity, -1, 2 ** 53, undefined as unknown as number])(
    'counts as standing still while it returns %s',
    async (reading) => {
      const session = await engine.sessions.create({ ttlSeconds: 3600, files: { '/a': '' } })
      pass(minute)
      await write(session, 'before')
      wall = reading
      await write(session, 'meanwhile')
      await session.checkpoint({ checkpointLabel: 'meanwhile' })
      const { approvalId } = await session.approvals.request()
      const meanwhile = await engine.sessions.create()
      wall = start + 2 * minute
      monotonic = NaN
      await session.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
      monotonic = 2 * minute
      await write(session, 'after')
      const later = await engine.sessions.create()
      const [one, two] = await Promise.all([session.approvals.list(), session.approvals.request()])
      expect(approvalId < two.approvalId).toBe(true)
      if (lasting) await reopen()
      expect(await ids()).toEqual([session.id, meanwhile.id, later.id])
      const again = await engine.sessions.open(session.id)
      expect(await again.fs.promises.readFile('/a', 'utf8')).toBe('after')
      expect((await again.listCheckpoints()).checkpoints[0]!.createdAt).toBe(one.approvals[0]!.createdAt)
      expect(await timesOf(again)).toEqual([0, 1, 1, 1, 1, 2, 2, 2].map((minutes) => minutes * minute))
      expect((await again.events.verify()).eventCount).toBe(8)
    },
  )

  test.runIf(lasting)(
    'counts no contents that a collection deleted, of whichever time they are',
    async () => {
      wall += year
      await reopen()
      const session = await engine.sessions.create({ files: { '/a': 'ahead' } })
      wall -= year
      await reopen()
      const kept = await engine.sessions.create({ files: { '/a': 'kept' } })
      expect(await engine.usage.metrics()).toMatchObject({ objectCount: 2, storedBytes: 9 })
      await engine.sessions.delete(session.id)
      await engine.collect()
      expect(await engine.usage.metrics()).toMatchObject({ objectCount: 1, storedBytes: 4 })
      await kept.files.write({ path: '/b', content: 'later' })
      expect(await engine.usage.metrics()).toMatchObject({ objectCount: 2, storedBytes: 9 })
    },
  )

  test('neither shortens nor extends file locks and cache entries', async () => {
    const session = await engine.sessions.create()
    await session.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
    await session.cache.put({ key: 'k', value: 'v', ttlSeconds: 60 })
    for (const jump of [year, -2 * year]) {
      wall += jump
      expect((await session.fileLocks.list()).locks).toHaveLength(1)
      expect((await session.cache.exists({ key: 'k' })).exists).toBe(true)
    }
    monotonic += minute
    expect((await session.fileLocks.list()).locks).toEqual([])
    expect((await session.cache.exists({ key: 'k' })).exists).toBe(false)
  })

  describe.runIf(lasting)(
    'neither shortens nor extends file locks and cache entries that are read again',
    () => {
      /** Drops all sessions from memory, as an eviction does. */
      async function drop(): Promise<void> {
        vi.spyOn(store, 'commit').mockRejectedValueOnce(new Error('the disk failed'))
        await expect(engine.sessions.create()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
      }

      const take = async (session: Session, name: string, seconds: number): Promise<void> => {
        await session.fileLocks.lock({ path: `/${name}`, timeoutSeconds: seconds })
        await session.cache.put({ key: name, value: 'v', ttlSeconds: seconds })
      }

      const held = async (session: Session): Promise<readonly [string[], string[]]> => {
        const { locks } = await session.fileLocks.list()
        const { keys: cached } = await session.cache.keys({ prefix: '' })
        return [locks.map(({ path }) => path.slice(1)), cached]
      }

      test.each([year, -year])('after a jump by %i ms', async (jump) => {
        const session = await engine.sessions.create()
        await take(session, 'long', 3600)
        await take(session, 'short', 60)
        pass(2 * minute)
        wall += jump
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        await take(session, 'new', 3600)
        wall -= jump
        pass(57 * minute)
        await drop()
        expect(await held(session)).toEqual([
          ['long', 'new'],
          ['long', 'new'],
        ])
        pass(minute)
        await drop()
        expect(await held(session)).toEqual([['new'], ['new']])
        pass(2 * minute)
        await drop()
        expect(await held(session)).toEqual([[], []])
      })

      test.each([year, -year])('after an opening and a jump by %i ms', async (jump) => {
        const before = await engine.sessions.create()
        await take(before, 'long', 3600)
        await take(before, 'short', 60)
        pass(2 * minute)
        await reopen()
        const session = await engine.sessions.open(before.id)
        pass(minute)
        wall += jump
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        pass(56 * minute)
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        pass(minute)
        await drop()
        expect(await held(session)).toEqual([[], []])
      })

      test.each([4 * minute, -4 * minute])('after a jump by only %i ms', async (jump) => {
        const session = await engine.sessions.create()
        await take(session, 'long', 180)
        await take(session, 'short', 60)
        pass(minute)
        wall += jump
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        pass(2 * minute)
        await drop()
        expect(await held(session)).toEqual([[], []])
      })

      test('after a small jump back before they were written, and a large one', async () => {
        const session = await engine.sessions.create()
        wall -= 4 * minute
        await take(session, 'long', 120)
        pass(minute)
        wall += year
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        pass(minute)
        await drop()
        expect(await held(session)).toEqual([[], []])
      })

      test('after more jumps than are remembered', async () => {
        const session = await engine.sessions.create()
        pass(hour)
        await take(session, 'long', 3600)
        for (let jump = 0; jump <= limits.clockSpans; jump++) {
          wall += jump % 2 === 0 ? year : -year
          await take(session, 'other', 1)
          pass(2000)
        }
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        pass(hour)
        await drop()
        expect(await held(session)).toEqual([[], []])
      })

      test('after a jump that is too small to be noticed', async () => {
        const session = await engine.sessions.create()
        wall += 4 * minute
        await take(session, 'long', 120)
        pass(minute)
        await drop()
        expect(await held(session)).toEqual([['long'], ['long']])
        pass(minute)
        await drop()
        expect(await held(session)).toEqual([[], []])
      })
    },
  )
})

test('changes of times, modes and attributes update the ctime but not other times', async () => {
  const environment = fixedEnvironment({ stepMs: 0 })
  const engine = await openEngine({ environment })
  const session = await engine.sessions.create({ files: { '/a': 'one' } })
  const { fs } = session
  const fd = fs.openSync('/a', 'r+')
  const { birthtimeMs } = fs.statSync('/a')
  const changes: [string, () => unknown][] = [
    ['utimes', () => fs.utimesSync('/a', 1, 5)],
    ['lutimes', () => fs.lutimesSync('/a', 1, 5)],
    ['futimes', () => fs.futimesSync(fd, 1, 5)],
    ['chmod', () => fs.chmodSync('/a', 0o600)],
    ['setXattr', () => session.files.setXattr({ path: '/a', name: 'user.a', value: Buffer.from('one') })],
    ['removeXattr', () => session.files.removeXattr({ path: '/a', name: 'user.a' })],
  ]
  for (const [name, change] of changes) {
    environment.advance(1000)
    await change()
    const stat = fs.statSync('/a')
    expect([name, stat.ctimeMs, stat.mtimeMs]).toEqual([name, environment.wallClockMs(), 5000])
    expect(stat.birthtimeMs).toBe(birthtimeMs)
  }
  fs.closeSync(fd)
  await engine.close()
})

describe('the time of the next event', () => {
  const { clockHoldMs } = limits

  test.each([
    ['the clock, if it has not gone back', 1000, 1000, 1000],
    ['the clock, if it went on', 1001, 1000, 1001],
    ['that of the newest event after a step back', 999, 1000, 1000],
    [
      'that of the newest event after the longest small step back',
      1000,
      1000 + clockHoldMs,
      1000 + clockHoldMs,
    ],
    ['the clock after a longer step back', 1000, 1001 + clockHoldMs, 1000],
  ])('is %s', (_what, now, last, next) => {
    expect(nextEventTime(now, last)).toBe(next)
  })
})

describe('corrections of the clock', () => {
  test('replace earlier ones to the same or a later time', () => {
    const first = addSetBack(undefined, 3, 100)
    expect(first).toEqual([[3, 100]])
    expect(addSetBack(first, 5, 101)).toEqual([
      [3, 100],
      [5, 101],
    ])
    expect(addSetBack(first, 5, 100)).toEqual([[5, 100]])
    expect(addSetBack(first, 5, 99)).toEqual([[5, 99]])
  })

  test('are limited in number to the newest ones', () => {
    let known = addSetBack(undefined, 1, 1)
    for (let at = 2; at <= limits.clockSetBacks; at++) known = addSetBack(known, at, at)
    expect([known.length, known[0]]).toEqual([limits.clockSetBacks, [1, 1]])
    known = addSetBack(known, 1000, 1000)
    expect([known.length, known[0], known.at(-1)]).toEqual([limits.clockSetBacks, [2, 2], [1000, 1000]])
  })

  test('limit the shown times of the events before them, and of no others', () => {
    const record = {
      setBacks: [
        [3, 100],
        [5, 200],
      ],
    } as unknown as SessionRecord
    expect(shownTime(record, 2, 500)).toBe(100)
    expect(shownTime(record, 2, 50)).toBe(50)
    expect(shownTime(record, 3, 500)).toBe(200)
    expect(shownTime(record, 4, 150)).toBe(150)
    expect(shownTime(record, 5, 500)).toBe(500)
    expect(shownTime({} as SessionRecord, 1, 500)).toBe(500)
  })
})

describe('the jumps of a clock', () => {
  const { clockHoldMs } = limits
  const at = (wallMs: number, monotonicMs: number) => ({
    ...fixedEnvironment(),
    wallClockMs: () => wallMs,
    monotonicMs: () => monotonicMs,
  })

  test('are those above the tolerance, in both directions', () => {
    for (const sign of [1, -1]) {
      const spans = new ClockSpans({ wallMs: 10 * hour, monotonicMs: 0 })
      spans.note(at(10 * hour + 1000 + sign * clockHoldMs, 1000))
      expect(spans.hasJumped).toBe(false)
      spans.note(at(10 * hour + 1000 + sign * (clockHoldMs + 1), 1000))
      expect(spans.hasJumped).toBe(true)
    }
  })

  test('show at which monotonic time the clock may have shown a time', () => {
    const spans = new ClockSpans({ wallMs: 10 * hour, monotonicMs: 1000 })
    expect(spans.shownAt(10 * hour)).toBe(1000)
    expect(spans.shownAt(10 * hour - 1)).toBeUndefined()
    expect(spans.shownAt(11 * hour)).toBe(1000 + hour)
    // After an hour, the clock is a day ahead.
    spans.note(at(35 * hour, 1000 + hour))
    expect(spans.shownAt(10 * hour)).toBe(1000)
    expect(spans.shownAt(35 * hour)).toBe(1000 + hour)
    expect(spans.shownAt(36 * hour)).toBe(1000 + 2 * hour)
    // The jump may have been a little before or after it was noticed.
    expect(spans.shownAt(11 * hour + clockHoldMs)).toBe(1000 + hour + clockHoldMs)
    expect(spans.shownAt(11 * hour + clockHoldMs + 1)).toBeUndefined()
    expect(spans.shownAt(35 * hour - clockHoldMs)).toBe(1000 + hour - clockHoldMs)
    expect(spans.shownAt(35 * hour - clockHoldMs - 1)).toBeUndefined()
  })

  test('show the latest of several times', () => {
    const spans = new ClockSpans({ wallMs: 10 * hour, monotonicMs: 0 })
    // The clock goes back by an hour, so it shows some times twice.
    spans.note(at(10 * hour, hour))
    expect(spans.shownAt(10.5 * hour)).toBe(1.5 * hour)
    expect(spans.shownAt(10 * hour)).toBe(hour)
    // It goes ahead by so little that it may have shown some times before and after the jump.
    const ahead = new ClockSpans({ wallMs: 10 * hour, monotonicMs: 0 })
    ahead.note(at(11 * hour + 1.5 * clockHoldMs, hour))
    expect(ahead.shownAt(11 * hour + 0.75 * clockHoldMs)).toBe(hour + 0.75 * clockHoldMs)
  })

  test('are forgotten from the oldest on', () => {
    const spans = new ClockSpans({ wallMs: 0, monotonicMs: 0 })
    for (let jump = 1; jump < limits.clockSpans; jump++) spans.note(at(jump * 10 * hour, jump))
    expect(spans.shownAt(0)).toBe(0)
    expect(spans.start).toEqual({ wallMs: 0, monotonicMs: 0 })
    spans.note(at(limits.clockSpans * 10 * hour, limits.clockSpans))
    expect(spans.shownAt(0)).toBeUndefined()
    expect(spans.start).toEqual({ wallMs: 10 * hour, monotonicMs: 1 })
    expect(spans.shownAt(10 * hour)).toBe(1)
  })
})

describe('a session with a time to live', () => {
  const ttlSeconds = 3600
  const ttlMs = ttlSeconds * 1000
  const opened = { wallMs: start, monotonicMs: 0 }

  interface World {
    readonly core: Core
    wall: number
    monotonic: number
  }

  function worldOf({
    sessionTtlSeconds,
    shared = false,
  }: { sessionTtlSeconds?: number; shared?: boolean } = {}): World {
    const world = { wall: start, monotonic: 0 } as World
    const environment = {
      ...fixedEnvironment(),
      wallClockMs: () => world.wall,
      monotonicMs: () => world.monotonic,
    }
    const core = {
      environment,
      opened,
      clockSpans: new ClockSpans(opened),
      table: { lastUses: new Map(), inUse: new Map() },
      sessionTtlSeconds,
      sharing: shared ? {} : undefined,
    } as unknown as Core
    return Object.assign(world, { core })
  }

  /** The number of sessions whose last use is remembered. */
  const uses = ({ core }: World): number => (core.table.lastUses as unknown as Map<string, object>).size

  const recordOf = (fields: Partial<SessionRecord> = {}): SessionRecord =>
    ({ id: 'a', createdAt: start - year, ttlSeconds, ...fields }) as SessionRecord

  const at = (world: World, ms: number): World => Object.assign(world, { wall: start + ms, monotonic: ms })

  test('expires when it was unused for exactly that time', () => {
    const world = worldOf()
    const session = { record: recordOf(), lastActivityAt: start + 1000 }
    expect(isExpired(at(world, 1000 + ttlMs - 1).core, session)).toBe(false)
    expect(isExpired(at(world, 1000 + ttlMs).core, session)).toBe(true)
  })

  test('has the time of the engine only without one of its own', () => {
    const world = at(worldOf({ sessionTtlSeconds: 2 * ttlSeconds }), ttlMs)
    const lastActivityAt = start
    expect(isExpired(world.core, { record: recordOf(), lastActivityAt })).toBe(true)
    const { ttlSeconds: _, ...without } = recordOf()
    expect(isExpired(world.core, { record: without, lastActivityAt })).toBe(false)
    expect(isExpired(at(world, 2 * ttlMs).core, { record: without, lastActivityAt })).toBe(true)
    expect(isExpired(at(worldOf(), year).core, { record: without, lastActivityAt })).toBe(false)
  })

  test('gets a second look if it was last used before the engine was opened', () => {
    const world = worldOf()
    const session = { record: recordOf(), lastActivityAt: start - 2 * ttlMs }
    expect(isExpired(world.core, session)).toBe(false)
    expect(isExpired(at(world, limits.expirySecondLookMs - 1).core, session)).toBe(false)
    expect(isExpired(at(world, limits.expirySecondLookMs).core, session)).toBe(true)
  })

  test('gets a shorter second look with a shorter time to live', () => {
    const world = worldOf()
    const session = { record: recordOf({ ttlSeconds: 60 }), lastActivityAt: start - year }
    expect(isExpired(at(world, 59_999).core, session)).toBe(false)
    expect(isExpired(at(world, 60_000).core, session)).toBe(true)
  })

  test('expires by the rest of its time if that is longer than the second look', () => {
    const world = worldOf()
    const session = { record: recordOf(), lastActivityAt: start - 1000 }
    expect(isExpired(at(world, ttlMs - 1001).core, session)).toBe(false)
    expect(isExpired(at(world, ttlMs - 1000).core, session)).toBe(true)
  })

  test('keeps the rest of its time if the clock jumps ahead after the engine was opened', () => {
    const world = worldOf()
    const session = { record: recordOf(), lastActivityAt: start - 1000 }
    const jumped = (monotonic: number): World => Object.assign(world, { wall: start + year, monotonic })
    expect(isExpired(jumped(limits.expirySecondLookMs).core, session)).toBe(false)
    expect(isExpired(jumped(ttlMs - 1001).core, session)).toBe(false)
    expect(isExpired(jumped(ttlMs - 1000).core, session)).toBe(true)
  })

  test('begins its time anew if the clock was ahead at its last use', () => {
    const world = worldOf()
    const session = { record: recordOf(), lastActivityAt: start + limits.clockHoldMs + 1 }
    expect(isExpired(world.core, session)).toBe(false)
    expect(isExpired(at(world, ttlMs - 1).core, session)).toBe(false)
    expect(isExpired(at(world, ttlMs).core, session)).toBe(true)
    const used = { record: recordOf(), lastActivityAt: start + ttlMs - 1 }
    noteUse(world.core, used.record, used.lastActivityAt)
    expect(isExpired(world.core, used)).toBe(false)
    const near = worldOf()
    const usedSoon = { record: recordOf(), lastActivityAt: start + limits.clockHoldMs }
    expect(isExpired(near.core, usedSoon)).toBe(false)
    expect(uses(near)).toBe(0)
  })

  test('begins its time anew if its last use seems older than itself', () => {
    for (const [ahead, size] of [
      [limits.clockHoldMs, 0],
      [limits.clockHoldMs + 1, 1],
    ] as const) {
      const world = at(worldOf(), 10 * ttlMs)
      isExpired(world.core, { record: recordOf({ createdAt: start + ahead }), lastActivityAt: start })
      expect(uses(world)).toBe(size)
    }
  })

  test('has more time on a store that several engines share', () => {
    const world = worldOf({ shared: true })
    const session = { record: recordOf(), lastActivityAt: start }
    const more = limits.activityStoredMs + 2 * limits.clockHoldMs
    expect(isExpired(at(world, ttlMs + more - 1).core, session)).toBe(false)
    expect(isExpired(at(world, ttlMs + more).core, session)).toBe(true)
  })

  test('has its uses measured by the monotonic clock', () => {
    const world = at(worldOf(), hour)
    const session = { record: recordOf(), lastActivityAt: start + hour }
    noteUse(world.core, session.record, session.lastActivityAt)
    for (const wall of [start, start + hour, start + year]) {
      expect(isExpired(Object.assign(world, { wall, monotonic: hour + ttlMs - 1 }).core, session)).toBe(false)
      expect(isExpired(Object.assign(world, { wall, monotonic: hour + ttlMs }).core, session)).toBe(true)
    }
  })

  test('has more time without a remembered use, once uses were forgotten', () => {
    const session = { record: recordOf(), lastActivityAt: start }
    const world = worldOf()
    Object.assign(world.core.table.lastUses, { hasForgotten: true })
    const more = limits.activityStoredMs + 2 * limits.clockHoldMs
    expect(isExpired(at(world, ttlMs + more - 1).core, session)).toBe(false)
    expect(isExpired(at(world, ttlMs + more).core, session)).toBe(true)
    noteUse(world.core, session.record, start)
    expect(isExpired(at(world, 2 * ttlMs + more - 1).core, session)).toBe(false)
    expect(isExpired(at(world, 2 * ttlMs + more).core, session)).toBe(true)
  })

  test('has no remembered use without a time to live', () => {
    const world = worldOf()
    const { ttlSeconds: _, ...without } = recordOf()
    noteUse(world.core, without, start)
    expect(uses(world)).toBe(0)
  })

  test('may have a later use by another engine on a shared store', () => {
    const world = worldOf({ shared: true })
    const record = recordOf()
    noteUse(world.core, record, start)
    const later = at(world, 4 * ttlMs).core
    expect(isExpired(later, { record, lastActivityAt: start })).toBe(true)
    expect(isExpired(later, { record, lastActivityAt: start + 3 * ttlMs })).toBe(false)
  })
})

test('of too many last uses of sessions, the oldest are forgotten', () => {
  lowerBound(limits, 'lastUses', 100)
  const uses = new LastUses()
  const use = (monotonicMs: number) => ({ lastActivityAt: 0, monotonicMs })
  for (let n = 0; n < limits.lastUses; n++) uses.set(`${n}`, use(n))
  uses.set('0', use(1_000_000))
  expect(uses.hasForgotten).toBe(false)
  uses.set('new', use(1_000_001))
  expect(uses.hasForgotten).toBe(true)
  expect([uses.get('0'), uses.get('1'), uses.get('2')]).toEqual([use(1_000_000), undefined, use(2)])
})
