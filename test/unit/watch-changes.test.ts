import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  limits,
  memoryStorage,
  openEngine,
  type ChangeWatch,
  type ChangeWatchOptions,
  type Engine,
  type Session,
  type Storage,
} from '../../src/index.js'
import { capabilities } from '../../src/engine/operations/operation.js'
import { FailingStorage } from '../support/failing-storage.js'
import { storages } from '../support/storages.js'
import {
  endFollowers,
  follow,
  notifyFollowers,
  type CommittedEvent,
  type Follower,
} from '../../src/engine/session/history/feed.js'
import { QuietFeed } from '../../src/engine/session/history/quiet-feed.js'
import type { LiveSession } from '../../src/engine/session/table/live.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })

describe.each(storages)('session.watch on %s', { timeout: 60_000 }, (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session
  let stop: AbortController

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'watch-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({ files: { '/a': '1', '/src/b.ts': '1' } })
    stop = new AbortController()
  })

  afterEach(async () => {
    stop.abort()
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  const write = (path: string, content = ''): Promise<unknown> => session.files.write({ path, content })
  const watch = (options: ChangeWatchOptions = {}): ChangeWatch =>
    session.watch({ debounceMs: 5, signal: stop.signal, ...options })
  const next = async (batches: ChangeWatch): Promise<string[]> => {
    const { value } = await batches.next()
    return (value?.changes ?? []).map(({ change, path }) => `${change} ${path}`)
  }
  const lastEventId = async (): Promise<string> => {
    let last = ''
    for await (const { eventId } of session.events) last = eventId
    return last
  }

  test('yields the changes after the call, with the event to continue after', async () => {
    const batches = watch()
    await write('/a', '2')
    await session.files.delete({ path: '/src/b.ts' })
    session.fs.mkdirSync('/d')
    const { value } = await batches.next()
    expect(value).toEqual({
      eventId: await lastEventId(),
      changes: [
        { path: '/a', change: 'modified', kind: 'file' },
        { path: '/d', change: 'added', kind: 'directory' },
        { path: '/src/b.ts', change: 'removed', kind: 'file' },
      ],
    })
    const later = next(batches)
    await write('/c')
    expect(await later).toEqual(['added /c'])
  })

  test('reports a change only when it is stored, also together with earlier ones', async () => {
    const failing = new FailingStorage(memoryStorage({ durable: true }))
    await using own = await openEngine({ storage: failing })
    const made = await own.sessions.create()
    const batches = made.watch({ debounceMs: 5 })
    await made.files.write({ path: '/a', content: '' })
    failing.hold()
    const written = made.files.write({ path: '/b', content: '' })
    let isReported = false
    const batch = next(batches).finally(() => (isReported = true))
    await sleep(50)
    const wasReported = isReported
    failing.release()
    expect(wasReported).toBe(false)
    expect(await batch).toEqual(['added /a', 'added /b'])
    await written
    await batches.return()
  })

  test('leaves out a file that was added and removed within a batch, or has its old content again', async () => {
    const batches = watch({ debounceMs: 200 })
    const first = next(batches)
    await write('/temporary')
    await write('/a', '2')
    await session.files.delete({ path: '/temporary' })
    await write('/kept')
    await write('/a', '1')
    expect(await first).toEqual(['added /kept'])
  })

  test('reports restores, undos and merges as the paths that differ', async () => {
    const fork = await session.fork()
    await fork.files.write({ path: '/src/b.ts', content: 'fork' })
    await session.checkpoint({ checkpointLabel: 'one' })
    const batches = watch()
    await write('/a', '2')
    await write('/c')
    expect(await next(batches)).toEqual(['modified /a', 'added /c'])
    await session.undo()
    expect(await next(batches)).toEqual(['removed /c'])
    await session.merge(fork)
    expect(await next(batches)).toEqual(['modified /src/b.ts'])
    await session.restore({ checkpointLabel: 'one' })
    expect(await next(batches)).toEqual(['modified /a', 'modified /src/b.ts'])
  })

  test('selects paths by globs', async () => {
    const batches = watch({ globs: ['*.ts', '/docs/**'] })
    await write('/a', '2')
    await write('/src/c.ts')
    await write('/docs/x/y')
    expect(await next(batches)).toEqual(['added /docs/x', 'added /docs/x/y', 'added /src/c.ts'])
    const later = next(batches)
    await write('/other')
    await sleep(30)
    await write('/d.ts')
    expect(await later).toEqual(['added /d.ts'])
  })

  test('misses nothing with many writers and a slow reader', async () => {
    const known = new Set(['/a', '/src/b.ts'])
    const batches = watch({ debounceMs: 0 })
    const writers = Promise.all(
      Array.from({ length: 5 }, async (_, writer) => {
        for (let i = 0; i < 30; i++) {
          await write(`/w${writer}/${i}`, `${i}`)
          if (i % 3 === 0) await session.files.delete({ path: `/w${writer}/${i}` })
        }
        if (writer === 0) await write('/done/0')
      }),
    ).then(() => write('/end'))
    let count = 0
    for await (const { changes } of batches) {
      count++
      for (const { path, change, kind } of changes) {
        expect(known.has(path)).toBe(change !== 'added')
        if (kind === 'directory' && change === 'modified') continue
        if (change === 'removed') known.delete(path)
        else known.add(path)
      }
      if (count % 4 === 0) await sleep(3)
      if (known.has('/end')) break
    }
    await writers
    const expected: string[] = []
    for await (const { path } of session.diff()) expected.push(path)
    expect([...known].toSorted()).toEqual([...new Set([...expected, '/a', '/src/b.ts'])].toSorted())
  })

  test('waits for a pause, but not forever', async () => {
    const batches = watch({ debounceMs: 60 })
    const first = batches.next()
    for (let i = 0; i < 5; i++) {
      await write(`/p${i}`)
      await sleep(10)
    }
    expect((await first).value?.changes).toHaveLength(5)
    expect(limits.watchBatchMs).toBe(5000)
  })

  test('divides a large batch, and only its last part has the newer event', async () => {
    const before = await lastEventId()
    const batches = watch()
    const root = session.fs
    root.mkdirSync('/many')
    const count = limits.watchChanges + 5
    for (let i = 0; i < count; i++) root.writeFileSync(`/many/${i}`, '')
    await session.flush()
    const [first, second] = [(await batches.next()).value, (await batches.next()).value]
    expect([first?.changes.length, second?.changes.length]).toEqual([limits.watchChanges, 6])
    expect([first?.eventId, second?.eventId]).toEqual([before, await lastEventId()])
  })

  test('continues after an event, also after the engine was reopened', async () => {
    const batches = watch()
    await write('/a', '2')
    const { value } = await batches.next()
    await write('/b')
    await write('/c')
    await session.files.delete({ path: '/c' })
    const afterEventId = value?.eventId ?? ''
    if (lasting) {
      await engine.close()
      engine = await openEngine({ storage })
      session = await engine.sessions.open(session.id)
    }
    expect(await next(watch({ afterEventId }))).toEqual(['added /b'])
    const newest = watch({ afterEventId: await lastEventId() })
    const later = next(newest)
    await write('/d')
    expect(await later).toEqual(['added /d'])
  })

  test('can continue after a collection', async () => {
    const afterEventId = await lastEventId()
    const batches = watch()
    await write('/a', '2')
    await session.files.delete({ path: '/src/b.ts' })
    await engine.collect({ keepRedo: true })
    expect(await next(batches)).toEqual(['modified /a', 'removed /src/b.ts'])
    expect(await next(watch({ afterEventId }))).toEqual(['modified /a', 'removed /src/b.ts'])
  })

  test("ends with the signal's reason", async () => {
    const batches = watch()
    const waiting = batches.next()
    await sleep(5)
    stop.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await expect(watch({ signal: AbortSignal.abort(new Error('before')) }).next()).rejects.toThrow('before')
  })

  test('ends after the last changes when the session is deleted', async () => {
    const batches = watch({ debounceMs: 1000 })
    const waiting = next(batches)
    await sleep(5)
    await Promise.all([write('/last'), session.delete()])
    expect(await waiting).toEqual(['added /last'])
    expect(await batches.next()).toEqual({ done: true, value: undefined })
    await expect(watch().next()).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })

  test('ends when the engine is closed', async () => {
    const waiting = watch().next()
    await sleep(5)
    await engine.close()
    expect(await waiting).toEqual({ done: true, value: undefined })
  })

  test.each<readonly [string, unknown, string]>([
    ['an unknown option', { glob: '*' }, 'INVALID_ARGUMENT'],
    ['a malformed glob', { globs: ['[z-a]'] }, 'INVALID_ARGUMENT'],
    ['a glob that is no string', { globs: [7] }, 'INVALID_ARGUMENT'],
    ['too many globs', { globs: Array.from({ length: 101 }, () => '*') }, 'TOO_LARGE'],
    ['a negative pause', { debounceMs: -1 }, 'INVALID_ARGUMENT'],
    ['a long pause', { debounceMs: 5001 }, 'INVALID_ARGUMENT'],
    ['an event of another session', { afterEventId: 'x' }, 'INVALID_ARGUMENT'],
    ['a signal of another type', { signal: {} }, 'INVALID_ARGUMENT'],
    ['null', null, 'INVALID_ARGUMENT'],
  ])('refuses %s', async (_case, options, reason) => {
    await expect(session.watch(options as ChangeWatchOptions).next()).rejects.toEqual(refused(reason))
  })

  test('refuses an event that does not exist', async () => {
    const afterEventId = (await lastEventId()).replace(/.$/, 'z')
    await expect(watch({ afterEventId }).next()).rejects.toEqual(refused('EVENT_NOT_FOUND'))
  })

  test('needs the capabilities to read files and history', async () => {
    for (const capability of ['files.read', 'history'] as const)
      await expect(
        session
          .narrow({ without: [capability] })
          .watch()
          .next(),
      ).rejects.toEqual(refused('PERMISSION_DENIED'))
    const batches = session
      .narrow({ without: capabilities.filter((one) => one !== 'files.read' && one !== 'history') })
      .watch({ debounceMs: 0 })
    await write('/a', '2')
    expect(await next(batches)).toEqual(['modified /a'])
  })
})

describe('followers of a session', () => {
  const sessionOf = (seq: number, stored?: number) => ({
    seq,
    shared: stored === undefined ? undefined : { stored: { seq: stored } },
    revive: undefined,
    followers: undefined as Map<Follower, number> | undefined,
  })
  const event = (seq: number): CommittedEvent => ({ seq }) as CommittedEvent

  test('get the events after the one at which they began', () => {
    const live = sessionOf(3)
    const got: number[] = []
    const stop = follow(live, { event: ({ seq }) => got.push(seq), end: () => got.push(-1) })
    for (const seq of [2, 3, 4, 5]) notifyFollowers(live, event(seq))
    expect(got).toEqual([4, 5])
    stop()
    notifyFollowers(live, event(6))
    endFollowers(live)
    expect(got).toEqual([4, 5])
  })

  test('begin at the newest stored event on a shared store', () => {
    const live = sessionOf(9, 3)
    const got: number[] = []
    follow(live, { event: ({ seq }) => got.push(seq), end: () => undefined })
    notifyFollowers(live, event(4))
    expect(got).toEqual([4])
  })

  test('end once, with the error', () => {
    const live = sessionOf(1)
    const ends: unknown[] = []
    follow(live, { event: () => undefined, end: (error) => ends.push(error) })
    const error = new Error('lost')
    endFollowers(live, error)
    endFollowers(live)
    expect(ends).toEqual([error])
  })
})

describe('a feed of quiet times', () => {
  const feedOf = (debounceMs: number): { feed: QuietFeed; live: LiveSession } => {
    const live = { seq: 0, followers: undefined } as unknown as LiveSession
    return { feed: new QuietFeed(live, debounceMs), live }
  }

  beforeEach(() => {
    vi.useFakeTimers()
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  /** Whether the feed is quiet by now. */
  const isQuiet = async (feed: QuietFeed): Promise<boolean> => {
    let quiet = false
    const become = (): boolean => (quiet = true)
    feed.quiet(undefined).then(become, become)
    await vi.advanceTimersByTimeAsync(0)
    return quiet
  }

  test('reports a pause after each event anew', async () => {
    const { feed, live } = feedOf(50)
    expect(await isQuiet(feed)).toBe(false)
    notifyFollowers(live, { seq: 1 } as CommittedEvent)
    await vi.advanceTimersByTimeAsync(49)
    notifyFollowers(live, { seq: 2 } as CommittedEvent)
    await vi.advanceTimersByTimeAsync(49)
    expect(await isQuiet(feed)).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(await isQuiet(feed)).toBe(true)
    // It stays quiet until it is reset.
    const timers = vi.getTimerCount()
    notifyFollowers(live, { seq: 3 } as CommittedEvent)
    expect(vi.getTimerCount()).toBe(timers)
    expect(await isQuiet(feed)).toBe(true)
    feed.reset()
    await vi.advanceTimersByTimeAsync(limits.watchBatchMs)
    expect(await isQuiet(feed)).toBe(false)
    feed[Symbol.dispose]()
  })

  test('reports a session that is never quiet after the longest wait', async () => {
    const { feed } = feedOf(50)
    for (let ms = 0; ms < limits.watchBatchMs - 40; ms += 40) {
      feed.event()
      await vi.advanceTimersByTimeAsync(40)
    }
    expect(await isQuiet(feed)).toBe(false)
    feed.event()
    await vi.advanceTimersByTimeAsync(40)
    expect(await isQuiet(feed)).toBe(true)
    feed[Symbol.dispose]()
  })

  test('reports each event at once without a pause', async () => {
    const { feed } = feedOf(0)
    expect(await isQuiet(feed)).toBe(false)
    feed.event()
    expect(await isQuiet(feed)).toBe(true)
    feed[Symbol.dispose]()
  })

  test('ends with the session, and with an aborted signal', async () => {
    const { feed, live } = feedOf(50)
    const waiting = feed.quiet(undefined)
    const error = new Error('lost')
    endFollowers(live, error)
    await waiting
    await feed.quiet(undefined)
    expect(feed.ended).toEqual({ error })
    await feedOf(50).feed.quiet(AbortSignal.abort())
  })

  test('has no timers and no follower after its end', async () => {
    const { feed, live } = feedOf(50)
    feed.event()
    expect(vi.getTimerCount()).toBe(2)
    feed[Symbol.dispose]()
    expect([vi.getTimerCount(), live.followers?.size]).toEqual([0, 0])
  })
})
