import { getEventListeners } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  memoryStorage,
  openEngine,
  type Engine,
  type EventListRequest,
  type Session,
  type SessionEvent,
  type Storage,
  type Store,
} from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { storages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

describe.each(storages)('the event log on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let store: Store
  let environment: FixedEnvironment
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'events-'))
    const made = makeStorage(directory)
    storage = { open: async () => (store = await made.open()) }
    environment = fixedEnvironment({ stepMs: 0 })
    engine = await openEngine({ storage, environment })
    session = await engine.as({ tenant: 'local', principal: 'ann' }).sessions.create({ files: { '/a': '1' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function reload(): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage, environment })
    session = await engine.as({ principal: 'ann' }).sessions.open(session.id)
  }

  const all = async (request: EventListRequest = {}): Promise<SessionEvent[]> => {
    const found: SessionEvent[] = []
    for (let pageToken = ''; ;) {
      const page = await session.events.list({ ...request, pageToken })
      found.push(...page.events)
      if ((pageToken = page.nextPageToken) === '') return found
    }
  }

  test('records each change with its author and nothing else', async () => {
    const bob = await engine.as({ principal: 'bob' }).sessions.open(session.id)
    await session.files.rename({ sourcePath: '/a', destinationPath: '/b' })
    await bob.files.batch([{ write: { path: '/c', content: 'x' } }, { delete: { path: '/b' } }])
    await bob.fs.promises.chmod('/c', 0o600)
    const { id: checkpointId } = await session.checkpoint({ checkpointLabel: 'one' })
    await session.restore({ checkpointLabel: 'one' })
    await expect(session.files.delete({ path: '/none' })).rejects.toEqual(refused('PATH_NOT_FOUND'))
    await session.files.read({ path: '/c' })
    for (let round = 0; round < 2; round++) {
      const events = await all()
      expect(events.map(({ eventType, principal, details }) => [eventType, principal, details])).toEqual([
        ['v1.SessionService.CreateSession', 'ann', { sourceId: '', revisionId: '' }],
        ['v1.FileSystemService.Rename', 'ann', { sourcePath: '/a', destinationPath: '/b' }],
        ['v1.FileSystemService.ApplyBatch', 'bob', { operationCount: 2, paths: ['/c', '/b'] }],
        ['v1.FileSystemService.SetAttributes', 'bob', { path: '/c' }],
        ['v1.PersistenceService.CreateCheckpoint', 'ann', { checkpointId, label: 'one' }],
        ['v1.PersistenceService.RestoreCheckpoint', 'ann', { checkpointId, label: 'one' }],
      ])
      expect(Object.keys(events[0]!).toSorted()).toEqual([
        'details',
        'eventId',
        'eventType',
        'principal',
        'timestamp',
      ])
      const ids = events.map(({ eventId }) => eventId)
      expect(ids.toSorted()).toEqual(ids)
      expect(new Set(ids).size).toBe(ids.length)
      await reload()
    }
  })

  test('supports pages and time bounds', async () => {
    const times: string[] = []
    for (let i = 0; i < 25; i++) {
      environment.advance(1000)
      times.push(new Date(environment.wallClockMs()).toISOString())
      await session.files.write({ path: '/a', content: `${i}` })
      // Some events share a time.
      if (i % 5 === 0) await session.files.write({ path: '/b', content: `${i}` })
    }
    await reload()
    const everything = await all()
    expect(everything).toHaveLength(31)
    for (const pageSize of [1, 7, 30, 31, 32]) expect(await all({ pageSize })).toEqual(everything)
    for (const [from, to] of [
      [0, 24],
      [3, 4],
      [5, 5],
      [20, 24],
    ] as const) {
      const bounds = { startTime: times[from]!, endTime: times[to]! }
      const expected = everything.filter(
        ({ timestamp }) => timestamp >= bounds.startTime && timestamp < bounds.endTime,
      )
      expect(await all(bounds)).toEqual(expected)
      expect(await all({ ...bounds, pageSize: 2 })).toEqual(expected)
    }
    expect(await all({ endTime: '1970-01-01T00:00:00Z' })).toEqual([])
    expect(await all({ startTime: '2999-01-01T00:00:00+05:00' })).toEqual([])
    expect(await all({ startTime: '2999-01-01T00:00:00Z', endTime: '1970-01-01T00:00:00Z' })).toEqual([])
    const iterated: SessionEvent[] = []
    for await (const event of session.events) iterated.push(event)
    expect(iterated).toEqual(everything)
  })

  test.each([
    { startTime: 'yesterday' },
    { startTime: '2026-02-30T00:00:00Z' },
    { endTime: '2026-01-01' },
    { endTime: 7 },
    { pageSize: -1 },
    { pageToken: 'x' },
    'x',
  ])('rejects %j with INVALID_ARGUMENT', async (request) => {
    await expect(session.events.list(request as never)).rejects.toEqual(refused('INVALID_ARGUMENT'))
  })

  test('rejects page tokens of other sessions and shows no events of a parent', async () => {
    await session.files.write({ path: '/x', content: '' })
    const fork = await session.fork()
    const { nextPageToken } = await session.events.list({ pageSize: 1 })
    await expect(fork.events.list({ pageToken: nextPageToken })).rejects.toEqual(refused('INVALID_ARGUMENT'))
    const { events } = await fork.events.list()
    expect(events.map(({ eventType }) => eventType)).toEqual(['v1.SessionService.ForkSession'])
  })

  test('can be followed from any event without gaps or duplicates', async () => {
    const write = (i: number): Promise<void> => session.files.write({ path: '/f', content: `${i}` })
    for (let i = 0; i < 10; i++) await write(i)
    const [first] = await all({ pageSize: 1 })
    const abort = new AbortController()
    const seen: string[] = []
    const following = (async () => {
      for await (const { eventId } of session.events.follow({
        afterEventId: first!.eventId,
        signal: abort.signal,
      })) {
        seen.push(eventId)
        if (seen.length === 110) return
      }
    })()
    await Promise.all(Array.from({ length: 100 }, (_, i) => write(i)))
    await following
    expect(seen).toEqual((await all()).slice(1).map(({ eventId }) => eventId))
    const waiting = session.events.follow({ afterEventId: seen.at(-1)!, signal: abort.signal }).next()
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await expect(session.events.follow({ signal: abort.signal }).next()).rejects.toThrow('enough')
    await expect(session.events.follow({ afterEventId: 'x' }).next()).rejects.toEqual(
      refused('INVALID_ARGUMENT'),
    )
  })

  test('following listens to its signal only until the reader stops', async () => {
    const { signal } = new AbortController()
    const following = session.events.follow({ signal })
    await following.next()
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    await following.return(undefined)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test.each(['delete', 'close'])('following ends on %s', async (how) => {
    const last = (await all()).at(-1)!.eventId
    const next = session.events.follow({ afterEventId: last }).next()
    await session.files.write({ path: '/x', content: '' })
    expect((await next).value?.eventType).toBe('v1.FileSystemService.WriteFile')
    const rest = session.events.follow({ afterEventId: last })
    await rest.next()
    const end = rest.next()
    if (how === 'delete') await session.delete()
    else await engine.close()
    expect(await end).toEqual({ done: true, value: undefined })
  })

  test('following delivers calls made before the session is deleted', async () => {
    const last = (await all()).at(-1)!.eventId
    const following = collect(session.events.follow({ afterEventId: last }))
    const writes = Array.from({ length: 50 }, (_, i) => session.files.write({ path: `/${i}`, content: '' }))
    await Promise.all([...writes, session.delete()])
    expect((await following).map(({ details }) => details)).toEqual(
      Array.from({ length: 50 }, (_, i) => ({ path: `/${i}` })),
    )
  })

  test('a followed session can be deleted while the engine closes', async () => {
    const last = (await all()).at(-1)!.eventId
    const next = session.events.follow({ afterEventId: last }).next()
    const deleted = session.delete()
    await engine.close()
    await deleted
    expect((await next).done).toBe(true)
  })

  test('following ends on close even for a slow reader', async () => {
    const paths = Array.from({ length: limits.eventsPerRead + 10 }, (_, i) => `/${i}`)
    await Promise.all(paths.map((path) => session.files.write({ path, content: '' })))
    const lagging = session.events.follow()
    await lagging.next()
    await engine.close()
    const rest = await collect(lagging)
    expect(rest.length).toBeGreaterThanOrEqual(limits.eventsPerRead - 1)
    expect(rest.map(({ eventId }) => eventId)).toEqual(rest.map(({ eventId }) => eventId).toSorted())
  })

  test('verifies across restores and reopening', async () => {
    const { headHash } = await session.events.verify()
    await session.checkpoint({ checkpointLabel: 'c' })
    await session.files.write({ path: '/é"\u2028', content: 'x'.repeat(2 ** 21) })
    await session.restore({ checkpointLabel: 'c' })
    for (let round = 0; round < 2; round++) {
      const verified = await session.events.verify()
      expect(verified.eventCount).toBe(4 + round)
      expect(verified.headHash).not.toBe(headHash)
      expect(verified.headHash).toMatch(/^[\w-]{43}$/)
      await reload()
      await session.files.write({ path: '/after', content: '' })
    }
  })

  test('verifies up to an earlier event with the same result as when it was the newest', async () => {
    await session.files.write({ path: '/a', content: 'x' })
    const kept = await session.events.verify()
    expect(kept.lastEventId).toBe((await all()).at(-1)!.eventId)
    await session.files.write({ path: '/b', content: 'y' })
    await reload()
    expect(await session.events.verify({ lastEventId: kept.lastEventId })).toEqual(kept)
    expect((await session.events.verify()).headHash).not.toBe(kept.headHash)
    await expect(session.events.verify({ lastEventId: 'x' })).rejects.toEqual(refused('INVALID_ARGUMENT'))
    await expect(session.events.verify('x' as never)).rejects.toEqual(refused('INVALID_ARGUMENT'))
    // A missing event cannot be verified.
    const later = `${session.id}-0000000z`
    await expect(session.events.verify({ lastEventId: later })).rejects.toEqual(refused('DATA_LOSS'))
  })

  test('verification detects a changed event', async () => {
    if (!lasting) return
    for (let i = 0; i < 5; i++) await session.files.write({ path: '/a', content: `${i}` })
    const changes: ((body: unknown[]) => unknown[])[] = [
      ([at, ...rest]) => [(at as number) + 1, ...rest],
      ([at, type, , ...rest]) => [at, type, { path: '/b' }, ...rest],
      ([at, type, details, , ...rest]) => [at, type, details, 'eve', ...rest],
      (body) => [...body.slice(0, 5), [['u', '/a']]],
    ]
    const events = store.events.bind(store)
    for (const change of changes) {
      store.events = async function* (sessionId, range) {
        for await (const page of events(sessionId, range)) {
          yield page.map((event) => (event.seq === 3 ? { ...event, body: change([...event.body]) } : event))
        }
      }
      await expect(session.events.verify()).rejects.toEqual(refused('DATA_LOSS'))
    }
    // The newest events are missing, but a snapshot has recorded them.
    store.events = events
    await reload()
    const reopened = store.events.bind(store)
    store.events = (sessionId, range) => reopened(sessionId, { ...range, to: Math.min(range.to, 4) })
    store.lastEvent = () => Promise.resolve({ sessionId: session.id, seq: 4, body: [] })
    await expect(session.events.verify()).rejects.toEqual(refused('DATA_LOSS'))
  })
})

test('following waits for changes that are not stored yet when the session is deleted', async () => {
  const storage = new SteppedStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  const following = session.events.follow()
  await following.next()
  const next = following.next()
  const held = storage.hold('commit', ({ events }) => events !== undefined)
  const written = session.files.write({ path: '/a', content: '' })
  const deleted = session.delete()
  await held.reached
  await storage.quiet()
  held.release()
  await Promise.all([written, deleted])
  expect((await next).value?.details).toEqual({ path: '/a' })
  expect(await following.next()).toEqual({ done: true, value: undefined })
  await engine.close()
})

test('following reports a failed write and continues after the stored events', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  await session.files.write({ path: '/a', content: '' })
  const following = session.events.follow()
  const seen = [(await following.next()).value, (await following.next()).value]
  const next = following.next()
  storage.next = 'fail'
  await expect(session.files.write({ path: '/b', content: '' })).rejects.toEqual(refused('STORE_FAILED'))
  await expect(next).rejects.toEqual(refused('STORE_FAILED'))
  storage.next = 'commit'
  const again = session.events.follow({ afterEventId: seen.at(-1)!.eventId })
  await session.files.write({ path: '/c', content: '' })
  expect((await again.next()).value?.details).toEqual({ path: '/c' })
  expect(await session.events.verify()).toMatchObject({ eventCount: 3 })
  await engine.close()
})
