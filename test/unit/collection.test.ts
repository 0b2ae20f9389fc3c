import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { keys, prefixEnd } from '../../src/engine/ports.js'
import { keyPrefixes } from '../../src/engine/storage/keys.js'
import {
  limits,
  memoryStorage,
  EngineError,
  openEngine,
  type CollectProgress,
  type Engine,
  type EngineOptions,
  type Session,
  type Storage,
  type Store,
} from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { numberedNames } from '../model/names.js'
import { expectNoGarbage } from '../model/stored-garbage.js'
import { FailingStorage } from '../support/failing-storage.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { lowerBound } from '../support/lower-bound.js'
import { longHistory } from '../support/long-history.js'
import { storages } from '../support/storages.js'
import { size, stepOf } from '../support/seed.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const lasting = storages.filter(([, , isLasting]) => isLasting)

describe.each(lasting)('collection on %s', (_name, makeStorage) => {
  let directory: string
  let storage: Storage
  let store: Store
  let engine: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'collection-'))
    const made = makeStorage(directory)
    storage = { open: async () => (store = await made.open()) }
    await open()
  })

  afterEach(async () => {
    await engine.close().catch(() => undefined)
    await rm(directory, { recursive: true, force: true })
  })

  async function open(options: Omit<EngineOptions, 'storage'> = {}): Promise<void> {
    engine = await openEngine({ storage, ...options })
  }

  async function reopen(options?: Omit<EngineOptions, 'storage'>): Promise<void> {
    await engine.close()
    await open(options)
  }

  async function blobBytes(): Promise<number> {
    let sum = 0
    for (const { bytes } of await store.listBlobs!('', 1_000_000)) sum += bytes
    return sum
  }

  async function count(prefix: string): Promise<number> {
    return (await store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: 1_000_000 })).length
  }

  const textOf = (session: Session, path: string): Promise<string> =>
    session.fs.promises.readFile(path, 'utf8')

  test('frees nothing in an empty store', async () => {
    const collected = await engine.collect()
    expect(collected).toMatchObject({ freedBytes: 0, deletedBlobs: 0, deletedNodes: 0, deletedSessions: 0 })
    expect(collected.tookMs).toBeGreaterThanOrEqual(0)
  })

  test('frees overwritten contents and keeps current ones', async () => {
    const session = await engine.sessions.create({ files: { '/kept': 'k'.repeat(1000) } })
    for (let i = 0; i < 20; i++) await session.files.write({ path: '/a', content: `${i}`.repeat(500) })
    const { headHash } = await session.events.verify()
    const { manifestHash } = await session.manifest()
    const collected = await engine.collect()
    expect(collected.deletedBlobs).toBe(19)
    expect(collected.prunedEvents).toBe(20)
    expect(collected.freedBytes).toBeGreaterThan(19 * 500)
    expect(await blobBytes()).toBe(1000 + 1000)
    expect((await session.events.verify()).headHash).toBe(headHash)
    expect((await session.events.list()).events.length).toBe(21)
    await reopen()
    const again = await engine.sessions.open(session.id)
    expect((await again.manifest()).manifestHash).toBe(manifestHash)
    expect(await textOf(again, '/a')).toBe('19'.repeat(500))
    expect((await again.events.verify()).headHash).toBe(headHash)
    expect(await engine.collect()).toMatchObject({ deletedBlobs: 0, prunedEvents: 0 })
  })

  test('a directory that grows again after its second page was collected keeps the files of its first page', async () => {
    const [end] = numberedNames('n', 1, true)
    const session = await engine.sessions.create()
    // A merge stores the tree of the merged session.
    const [first, second, third] = [await session.fork(), await session.fork(), await session.fork()]
    await session.files.write({ path: `/d/${end}`, content: 'kept' })
    await session.checkpoint({ checkpointLabel: 'one page' })
    await first.merge(session)
    await session.files.write({ path: `/d/${end}-second`, content: 'undone' })
    await second.merge(session)
    await session.restore({ checkpointLabel: 'one page' })
    await second.delete()
    await engine.collect()
    await session.files.write({ path: `/d/${end}-third`, content: 'third' })
    await third.merge(session)
    expect((await engine.check({ readData: true })).findings).toEqual([])
    await engine.collect()
    await reopen()
    expect(await textOf(await engine.sessions.open(third.id), `/d/${end}`)).toBe('kept')
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })

  test('keeps the records of a session created between two deleted ones', async () => {
    const sessions: Session[] = []
    for (let i = 0; i < 3; i++) sessions.push(await engine.sessions.create())
    const [first, kept, last] = sessions
    // The search for records of the first one also reads these.
    await kept!.checkpoint({ checkpointLabel: 'here' })
    await Promise.all([first!.delete(), last!.delete()])
    expect((await engine.collect()).deletedSessions).toBe(2)
    expect((await kept!.listCheckpoints()).checkpoints).toHaveLength(1)
    expect(await count(keys.checkpoints(kept!.id))).toBe(1)
  })

  test('with keepRedo keeps a fork of a deleted session', async () => {
    const parent = await engine.sessions.create()
    await parent.files.write({ path: '/a', content: 'of the parent'.repeat(100) })
    const { id } = await parent.fork()
    await parent.delete()
    expect((await engine.collect({ keepRedo: true })).deletedSessions).toBe(1)
    await reopen()
    expect(await textOf(await engine.sessions.open(id), '/a')).toBe('of the parent'.repeat(100))
  })

  test('with keepRedo keeps all contents that the redo of many sessions references', async () => {
    const [sessions, changes] = [40, 20]
    const writes = Array.from({ length: sessions }, async (_session, s) => {
      const session = await engine.sessions.create()
      for (let i = 0; i < changes; i++) await session.files.write({ path: '/a', content: `${s} ${i}` })
    })
    await Promise.all(writes)
    expect((await engine.collect({ keepRedo: true })).deletedBlobs).toBe(0)
    expect((await engine.collect()).deletedBlobs).toBe(sessions * (changes - 1))
  })

  test('frees more contents than fit in one batch', async () => {
    const session = await engine.sessions.create()
    if (size < 1) lowerBound(limits, 'recordsPerCommit', 1000)
    const count = limits.recordsPerCommit + 100
    const paths = Array.from({ length: count }, (_, i) => `/${i}`)
    await session.files.batch(paths.map((path) => ({ write: { path, content: path } })))
    await session.files.batch(paths.map((path) => ({ delete: { path } })))
    expect((await engine.collect()).deletedBlobs).toBe(count)
    expect(await blobBytes()).toBe(0)
  })

  test('frees contents overwritten before the newest snapshot', async () => {
    const session = await engine.sessions.create()
    await session.files.write({ path: '/a', content: 'x'.repeat(100_000) })
    await session.files.write({ path: '/a', content: 'y' })
    // Closing stores a snapshot of the newest state.
    await reopen()
    expect((await engine.collect()).prunedEvents).toBe(2)
    expect(await blobBytes()).toBe(1)
  })

  test('with keepRedo keeps all contents that redo references', async () => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 5; i++) await session.files.write({ path: '/a', content: `${i}`.repeat(500) })
    expect(await engine.collect({ keepRedo: true })).toMatchObject({ deletedBlobs: 0, prunedEvents: 0 })
    expect(await blobBytes()).toBe(2500)
    expect(await engine.collect()).toMatchObject({ deletedBlobs: 4, prunedEvents: 5 })
  })

  test('with keepRedo keeps a content that only the redo of the single event references', async () => {
    const session = await engine.sessions.create()
    await engine.collect()
    await session.files.batch(
      ['first', 'second'].map((content) => ({ write: { path: '/a', content: content.repeat(100) } })),
    )
    expect(await engine.collect({ keepRedo: true })).toMatchObject({ deletedBlobs: 0, prunedEvents: 0 })
    expect(await engine.collect()).toMatchObject({ deletedBlobs: 1, prunedEvents: 1 })
  })

  test('keeps the states of checkpoints and frees those of deleted ones', async () => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 6; i++) {
      await session.files.write({ path: '/a', content: `${i}`.repeat(500) })
      await session.checkpoint({ checkpointLabel: `${i}` })
    }
    await session.files.write({ path: '/a', content: 'end' })
    await engine.collect()
    await reopen()
    const again = await engine.sessions.open(session.id)
    for (const i of [3, 0, 5]) {
      await again.restore({ checkpointLabel: `${i}` })
      expect(await textOf(again, '/a')).toBe(`${i}`.repeat(500))
    }
    await again.deleteCheckpoint({ checkpointLabel: '0' })
    expect(await again.pruneCheckpoints({ keepLast: 2 })).toEqual({ deletedCount: 3 })
    expect(await again.pruneCheckpoints({ keepLast: 2 })).toEqual({ deletedCount: 0 })
    await expect(again.restore({ checkpointLabel: '3' })).rejects.toEqual(refused('CHECKPOINT_NOT_FOUND'))
    await expect(again.fork({ checkpointLabel: '3' })).rejects.toEqual(refused('CHECKPOINT_NOT_FOUND'))
    await expect(again.pruneCheckpoints({ keepLast: -1 })).rejects.toEqual(refused('INVALID_ARGUMENT'))
    await again.checkpoint({ checkpointLabel: '3' })
    await again.deleteCheckpoint({ checkpointLabel: '3' })
    const { headHash } = await again.events.verify()
    await reopen()
    await engine.collect()
    const last = await engine.sessions.open(session.id)
    await expectNoGarbage(store, [last])
    expect((await last.events.verify()).headHash).toBe(headHash)
    expect((await last.listCheckpoints()).checkpoints.map(({ checkpointLabel }) => checkpointLabel)).toEqual([
      '4',
      '5',
    ])
    await last.restore({ checkpointLabel: '4' })
    expect(await textOf(last, '/a')).toBe('4'.repeat(500))
  })

  test.each<[string, (session: Session, content: Uint8Array) => Promise<unknown>]>([
    ['files.write', (session, content) => session.files.write({ path: '/big', content })],
    ['a batch', (session, content) => session.files.batch([{ write: { path: '/big', content } }])],
    ['fs.writeFile', (session, content) => session.fs.promises.writeFile('/big', content)],
  ])('frees a large file of %s in the same process once no checkpoint references it', async (_how, write) => {
    const session = await engine.sessions.create()
    await session.checkpoint({ checkpointLabel: 'before' })
    await write(session, Buffer.alloc(6 * 2 ** 20, 'large '))
    await session.files.delete({ path: '/big' })
    await engine.collect()
    expect(await blobBytes()).toBeGreaterThan(2 ** 20)
    await session.deleteCheckpoint({ checkpointLabel: 'before' })
    await engine.collect()
    expect(await blobBytes()).toBe(0)
  })

  test('a restore to a state before the oldest kept redo stays usable', async () => {
    const session = await engine.sessions.create()
    await session.files.write({ path: '/a', content: 'one' })
    await session.checkpoint({ checkpointLabel: 'one' })
    await session.files.write({ path: '/a', content: 'two' })
    await session.checkpoint({ checkpointLabel: 'two' })
    await session.restore({ checkpointLabel: 'one' })
    await session.files.write({ path: '/b', content: 'b' })
    await session.checkpoint({ checkpointLabel: 'three' })
    await session.deleteCheckpoint({ checkpointLabel: 'one' })
    for (let times = 0; times < 2; times++) {
      await engine.collect()
      await reopen()
      const again = await engine.sessions.open(session.id)
      expect(await textOf(again, '/a')).toBe('one')
      await (await again.fork({ checkpointLabel: 'three' })).delete()
      const two = await again.fork({ checkpointLabel: 'two' })
      expect(await textOf(two, '/a')).toBe('two')
      await two.delete()
    }
  })

  test('a bundle can be exported after a restore that a later one undid', async () => {
    const session = await engine.sessions.create()
    const write = (content: string): Promise<void> => session.files.write({ path: '/a', content })
    await write('gone')
    await session.checkpoint({ checkpointLabel: 'gone' })
    await write('first')
    await session.checkpoint({ checkpointLabel: 'first' })
    await session.restore({ checkpointLabel: 'gone' })
    await session.restore({ checkpointLabel: 'first' })
    await session.files.write({ path: '/b', content: 'last' })
    await session.checkpoint({ checkpointLabel: 'last' })
    await session.deleteCheckpoint({ checkpointLabel: 'gone' })
    await engine.collect()
    await reopen()
    const again = await engine.sessions.open(session.id)
    const copy = await engine.sessions.importBundle(again.exportBundle())
    await copy.restore({ checkpointLabel: 'last' })
    expect(await textOf(copy, '/a')).toBe('first')
  })

  test('frees a deleted session and all data that only it referenced', async () => {
    const kept = await engine.sessions.create({ files: { '/shared': 's'.repeat(700) } })
    await engine.collect()
    const before = { blobs: await blobBytes(), nodes: await count('n') }
    const session = await kept.fork()
    await session.files.write({ path: '/own', content: 'o'.repeat(100_000) })
    await session.checkpoint({ checkpointLabel: 'one' })
    await session.annotations.add({
      filePath: '/own',
      expectedContentHash: await hashOf(session, '/own'),
      comment: 'note',
    })
    await session.cache.put({ key: 'large', value: Buffer.alloc(50_000, 'c') })
    await session.cache.put({ key: 'small', value: Buffer.from('c') })
    await session.fileLocks.lock({ path: '/own', timeoutSeconds: 60 })
    await session.bus.publish({ topic: 't', payload: Buffer.from('p') })
    await reopen()
    await engine.sessions.delete(session.id)
    const collected = await engine.collect()
    expect(collected.deletedSessions).toBe(1)
    expect(await blobBytes()).toBe(before.blobs)
    expect(await store.lastEvent(session.id)).toBeUndefined()
    for (const prefix of ['r', 'k', 'v', 'l', 'a', 'p', 'c', 'u', 'h', 'x', 't', 'q'])
      expect(await count(`${prefix}${session.id}`), prefix).toBe(0)
    await reopen()
    await engine.collect()
    expect(await count('n')).toBeLessThanOrEqual(before.nodes)
    await expect(engine.sessions.open(session.id)).rejects.toEqual(refused('SESSION_NOT_FOUND'))
    await expectNoGarbage(store, [await engine.sessions.open(kept.id)])
    expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toEqual([kept.id])
  })

  test.each([true, false])('keeps forks of deleted sessions (keepRedo %s)', async (keepRedo) => {
    const first = await engine.sessions.create({ files: { '/a': 'a' } })
    await first.files.write({ path: '/b', content: 'b' })
    await first.checkpoint({ checkpointLabel: 'b' })
    await first.files.write({ path: '/b', content: 'lost' })
    const second = await first.fork({ checkpointLabel: 'b' })
    await second.files.write({ path: '/c', content: 'c' })
    const third = await second.fork()
    await third.files.write({ path: '/d', content: 'd' })
    await third.checkpoint({ checkpointLabel: 'd' })
    const untouched = await first.fork({ checkpointLabel: 'b' })
    await reopen()
    for (const { id } of [first, second]) await engine.sessions.delete(id)
    expect((await engine.collect({ keepRedo })).deletedSessions).toBe(2)
    await reopen()
    const left = await engine.sessions.open(third.id)
    for (const name of ['a', 'b', 'c', 'd']) expect(await textOf(left, `/${name}`)).toBe(name)
    await left.restore({ checkpointLabel: 'd' })
    const other = await engine.sessions.open(untouched.id)
    expect(await textOf(other, '/b')).toBe('b')
    await engine.collect({ keepRedo })
    await reopen()
    await engine.collect({ keepRedo })
    await expectNoGarbage(store, [
      await engine.sessions.open(third.id),
      await engine.sessions.open(untouched.id),
    ])
  })

  test.each([true, false])(
    'keeps the states of forks made during a collection (keepRedo %s)',
    async (keepRedo) => {
      for (let i = 0; i < 20; i++)
        await (await engine.sessions.create()).files.write({ path: '/a', content: `${i}`.repeat(300) })
      const parent = await engine.sessions.create()
      await parent.files.write({ path: '/a', content: 'first'.repeat(100) })
      let made: Promise<[Session, Session]> | undefined
      const make = async (): Promise<[Session, Session]> => {
        const [child] = await Promise.all([
          parent.fork(),
          parent.files.write({ path: '/a', content: 'second'.repeat(100) }),
        ])
        const [grandchild] = await Promise.all([
          child.fork(),
          child.files.write({ path: '/a', content: 'third'.repeat(100) }),
        ])
        return [child, grandchild]
      }
      await engine.collect({
        keepRedo,
        onProgress: () => {
          made ??= make()
        },
      })
      const [child, grandchild] = await made!
      expect((await engine.check({ readData: true })).findings).toEqual([])
      // Skips the snapshots that an orderly close writes.
      await store.close()
      await open()
      expect(await textOf(await engine.sessions.open(child.id), '/a')).toBe('third'.repeat(100))
      expect(await textOf(await engine.sessions.open(grandchild.id), '/a')).toBe('first'.repeat(100))
    },
  )

  test("a reader of a collected session's log gets the whole log or an error", async () => {
    if (size < 1) lowerBound(limits, 'eventsPerRead', 400)
    const session = await engine.sessions.create()
    await Promise.all(
      Array.from({ length: 1200 }, (_, i) => session.files.write({ path: '/a', content: `${i}` })),
    )
    const followed = session.events.follow()
    await followed.next()
    const events = store.events.bind(store)
    let isFirst = true
    store.events = async function* (sessionId, range) {
      for await (const page of events(sessionId, range)) {
        yield page
        if (!isFirst || range.from !== 1) continue
        isFirst = false
        await session.delete()
        await engine.collect()
      }
    }
    await expect(session.events.verify()).resolves.toMatchObject({ eventCount: 1201 })
    store.events = events
    let count = 1
    for (let step = await followed.next(); step.done !== true; step = await followed.next()) count++
    expect(count).toBe(1201)
    expect((await engine.collect()).deletedSessions).toBe(1)
    const other = await engine.sessions.create()
    await Promise.all(
      Array.from({ length: 1200 }, (_, i) => other.files.write({ path: '/a', content: `${i}` })),
    )
    isFirst = true
    store.events = async function* (sessionId, range) {
      for await (const page of events(sessionId, range)) {
        yield page
        if (!isFirst || range.from !== 1) continue
        isFirst = false
        await other.delete()
        await engine.collect()
      }
    }
    const outcome = await other.events.verify().then(
      ({ eventCount }) => eventCount,
      (error: unknown) => (error instanceof EngineError ? error.reason : error),
    )
    expect([1201, 'SESSION_NOT_FOUND']).toContain(outcome)
    store.events = events
  })

  test('keeps one side of a diff while the other side is resolved', async () => {
    const session = await engine.sessions.create({ files: { '/d/a': 'a' } })
    await session.files.write({ path: '/d/b', content: 'b'.repeat(300) })
    await session.checkpoint({ checkpointLabel: 'one' })
    await session.files.write({ path: '/d/b', content: 'other' })
    const other = await engine.sessions.create({ files: { '/d/a': 'a' } })
    await other.checkpoint({ checkpointLabel: 'two' })
    await engine.collect()
    await reopen()
    const [again, slow] = [await engine.sessions.open(session.id), await engine.sessions.open(other.id)]
    const scan = store.scan.bind(store)
    let release!: () => void
    const released = new Promise<void>((resolve) => (release = resolve))
    store.scan = async (range) => {
      if (range.gte.startsWith(keys.checkpoints(slow.id))) await released
      return scan(range)
    }
    const diff = engine.diff({
      from: { sessionId: again.id, checkpointLabel: 'one' },
      to: { sessionId: slow.id, checkpointLabel: 'two' },
    })
    for (let turns = 0; turns < 20; turns++) await nextTurn()
    await again.deleteCheckpoint({ checkpointLabel: 'one' })
    store.scan = scan
    await engine.collect()
    await engine.collect()
    release()
    expect(await diff.paths()).toEqual({ added: [], removed: ['/d/b'], modified: [] })
  })

  test('deletes all data of deleted sessions even if some are already gone', async () => {
    const kept = await engine.sessions.create()
    const parent = await engine.sessions.create()
    await parent.files.write({ path: '/a', content: 'a'.repeat(300) })
    // A commit removes several sessions at once, in the order of their creation.
    for (let i = 0; i < 40; i++) await (await engine.sessions.create()).delete()
    const fork = await parent.fork()
    await fork.files.write({ path: '/b', content: 'b'.repeat(300) })
    await parent.delete()
    await fork.delete()
    const interrupted = new AbortController()
    const onProgress = ({ stage, done }: CollectProgress): void => {
      if (stage === 'sessions' && done > 1) interrupted.abort(new Error('enough'))
    }
    const collecting = engine.collect({ signal: interrupted.signal, onProgress })
    await expect(collecting).rejects.toThrow('enough')
    expect(await store.lastEvent(parent.id)).toBeUndefined()
    expect(await store.lastEvent(fork.id)).toBeDefined()
    expect((await engine.check({ readData: true })).findings).toEqual([])
    await reopen()
    await engine.collect()
    await expectNoGarbage(store, [await engine.sessions.open(kept.id)])
  })

  test.each([false, true])(
    'keeps the state of a fork made while its parent is examined (parent deleted: %s)',
    async (isDeleted) => {
      const parent = await engine.sessions.create()
      await parent.files.write({ path: '/a', content: 'first'.repeat(100) })
      const lastEvent = store.lastEvent.bind(store)
      let fork: Session | undefined
      store.lastEvent = async (sessionId) => {
        if (sessionId === parent.id && fork === undefined) {
          await parent.files.write({ path: '/a', content: 'forked'.repeat(100) })
          fork = await parent.fork()
          await parent.files.write({ path: '/a', content: 'last'.repeat(100) })
          if (isDeleted) await parent.delete()
        }
        return lastEvent(sessionId)
      }
      await engine.collect()
      expect((await engine.check({ readData: true })).findings).toEqual([])
      await engine.collect()
      expect((await engine.check({ readData: true })).findings).toEqual([])
      await reopen()
      const again = await engine.sessions.open(fork!.id)
      expect(await textOf(again, '/a')).toBe('forked'.repeat(100))
    },
  )

  test('a lost snapshot loses no data if later redo is kept', async () => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 4300; i++) void 0
    await session.checkpoint({ checkpointLabel: 'first' })
    await Promise.all(
      Array.from({ length: 4300 }, (_, i) => session.files.write({ path: '/a', content: `${i}` })),
    )
    await engine.collect()
    // The first state, one in two thousand events, and the newest.
    expect(await count('r')).toBeLessThanOrEqual(4)
    await reopen()
    const again = await engine.sessions.open(session.id)
    expect(await textOf(again, '/a')).toBe('4299')
    await again.restore({ checkpointLabel: 'first' })
    expect(await again.fs.promises.readdir('/')).toEqual([])
  })

  test('keeps data that open files, streams, exports and reads need', async () => {
    const large = Buffer.alloc(9 << 20, 'large')
    const session = await engine.sessions.create({ files: { '/a': 'a'.repeat(100_000), '/large': large } })
    const handle = await session.fs.promises.open('/a')
    const tar = session.exportTar()
    const stream = session.fs.createReadStream('/large', { highWaterMark: 1 << 16 })
    const pieces = stream[Symbol.asyncIterator]()
    const [first] = [(await pieces.next()).value as Buffer]
    const reading = session.files.read({ path: '/large' })
    await Promise.all([session.files.delete({ path: '/a' }), session.files.delete({ path: '/large' })])
    await session.files.write({ path: '/b', content: 'b' })
    await engine.collect()
    await engine.collect()
    expect((await reading).byteLength).toBe(large.byteLength)
    expect((await handle.readFile()).toString()).toBe('a'.repeat(100_000))
    await handle.close()
    let streamed = first.length
    for (let step = await pieces.next(); step.done !== true; step = await pieces.next())
      streamed += (step.value as Buffer).length
    expect(streamed).toBe(large.byteLength)
    let exported = 0
    for await (const piece of tar) exported += piece.byteLength
    expect(exported).toBeGreaterThan(large.byteLength)
  })

  test('deletes the scan state of a directory with its source', async () => {
    const scanned = join(directory, 'scanned')
    await mkdir(join(scanned, 'd'), { recursive: true })
    await writeFile(join(scanned, 'd', 'a'), 'a')
    await reopen({ hostPaths: { roots: [directory] } })
    const ids: string[] = []
    for (const displayName of ['one', 'two']) {
      const { sourceId } = await engine.sources.create({ displayName, hostPath: { path: scanned } })
      await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
      ids.push(sourceId)
    }
    const session = await engine.sessions.create({ sourceRef: { sourceId: ids[0]! } })
    const seen = await count('m')
    await engine.collect()
    expect(await count('m')).toBe(seen)
    await engine.sources.delete(ids[0]!)
    expect((await engine.collect()).deletedRecords).toBeGreaterThanOrEqual(seen / 2)
    expect(await count('m')).toBe(seen / 2)
    expect((await engine.collect()).deletedRecords).toBe(0)
    expect(await textOf(session, '/d/a')).toBe('a')
    await writeFile(join(scanned, 'd', 'a'), 'other')
    await engine.sources.waitForJob(await engine.sources.refresh(ids[1]!))
    const other = await engine.sessions.create({ sourceRef: { sourceId: ids[1]! } })
    expect(await textOf(other, '/d/a')).toBe('other')
  })

  test.runIf(hasGit)('keeps the tree of a git tree whose revision has another tree', async () => {
    const repository = GitRepository.create(join(directory, 'r.git'))
    repository.commitFiles([
      ['100644', 'a', 'a'],
      ['100644', 'c', 'c'],
    ])
    // The two modes give the same file, so both trees give the same revision.
    const blob = repository.blob('b')
    repository.git(['tag', 'first', repository.rawTree([['100644', 'b', blob]])])
    repository.git(['tag', 'second', repository.rawTree([['100664', 'b', blob]])])
    const options = { hostPaths: { roots: [directory] } }
    await reopen(options)
    const create = async (): Promise<string> => {
      const gitRepository = { path: repository.path, defaultRef: 'main' }
      return (await engine.sources.create({ displayName: 'git', gitRepository })).sourceId
    }
    const importRef = async (sourceId: string, gitRef: string): Promise<string> => {
      const job = await engine.sources.startImport(sourceId, { git: { gitRef } })
      return (await engine.sources.waitForJob(job)).revisionId
    }
    const sourceId = await create()
    const first = await importRef(sourceId, 'first')
    await importRef(sourceId, 'main')
    // It starts from the tree of the commit, so its files have other inode numbers than those of the revision.
    expect(await importRef(sourceId, 'second')).toBe(first)
    await reopen(options)
    await engine.collect()
    const other = await create()
    await importRef(other, 'second')
    const session = await engine.sessions.create({ sourceRef: { sourceId: other } })
    expect(await textOf(session, '/b')).toBe('b')
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })

  test('loses nothing of concurrent imports', async () => {
    const source = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    for (let round = 0; round < 5; round++) {
      const files: Record<string, Uint8Array> = {}
      for (let i = 0; i < 40; i++) files[`/d${i % 7}/f${i}`] = Buffer.alloc(200_000 + i, `${round % 2} ${i}`)
      const job = await engine.sources.startImport(source.sourceId, { uploadedSnapshot: { files } })
      let done = false
      const waiting = engine.sources.waitForJob(job).finally(() => (done = true))
      do {
        await engine.collect()
        await nextTurn()
      } while (!done)
      const { revisionId } = await waiting
      await engine.collect()
      const session = await engine.sessions.create({ sourceRef: { sourceId: source.sourceId, revisionId } })
      for (const path of Object.keys(files))
        expect(Buffer.compare(await session.files.read({ path }), files[path]!)).toBe(0)
      await session.delete()
    }
  })

  test('keeps a content that is written again while it is deleted', async () => {
    let session = await engine.sessions.create()
    const contents = Array.from({ length: 60 }, (_, i) => `${i} `.repeat(2000))
    for (let round = 0; round < 6; round++) {
      // All of these contents are garbage until they are written again.
      await Promise.all(contents.map((content, i) => session.files.write({ path: `/${i}`, content })))
      await Promise.all(contents.map((_, i) => session.files.delete({ path: `/${i}` })))
      const collected = engine.collect()
      const writer = async (): Promise<void> => {
        for (const [i, content] of contents.entries()) {
          await session.files.write({ path: `/${i}`, content })
          if (i % (round + 1) === 0) await nextTurn()
        }
      }
      await Promise.all([collected, writer()])
      if (round % 2 === 1) await engine.collect()
      await reopen()
      session = await engine.sessions.open(session.id)
      for (const [i, content] of contents.entries()) expect(await textOf(session, `/${i}`)).toBe(content)
      for (let i = 0; i < contents.length; i++) await session.files.delete({ path: `/${i}` })
    }
  })

  test('keeps a bundle complete that is imported meanwhile', async () => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 30; i++) {
      await session.files.write({ path: `/${i}`, content: Buffer.alloc(50_000, `${i}`) })
      if (i % 10 === 0) await session.checkpoint({ checkpointLabel: `${i}` })
    }
    const pieces: Uint8Array[] = []
    for await (const piece of session.exportBundle()) pieces.push(piece)
    await session.delete()
    await engine.collect()
    async function* slowly(): AsyncGenerator<Uint8Array> {
      const bundle = Buffer.concat(pieces)
      for (let at = 0; at < bundle.length; at += 100_000) {
        yield bundle.subarray(at, at + 100_000)
        await nextTurn()
      }
    }
    let done = false
    const importing = engine.sessions.importBundle(slowly()).finally(() => (done = true))
    while (!done) await engine.collect()
    const copy = await importing
    await engine.collect()
    await copy.restore({ checkpointLabel: '10' })
    expect((await copy.files.read({ path: '/10' })).byteLength).toBe(50_000)
    await copy.events.verify()
  })

  test('loses nothing when interrupted at any commit', async () => {
    for (let commits = 0; ; commits += stepOf(6)) {
      const failing = new FailingStorage(storage)
      await engine.close()
      engine = await openEngine({ storage: failing })
      const parent = await engine.sessions.create({ files: { '/a': 'a' } })
      for (let i = 0; i < 5; i++) {
        await parent.files.write({ path: '/b', content: `${commits} ${i}`.repeat(300) })
        await parent.checkpoint({ checkpointLabel: `${i}` })
      }
      const fork = await parent.fork({ checkpointLabel: '2' })
      await parent.pruneCheckpoints({ keepLast: 2 })
      const gone = await parent.fork()
      await gone.files.write({ path: '/c', content: `gone ${commits}`.repeat(300) })
      await gone.delete()
      failing.failAfter(commits)
      const through = await engine.collect().then(
        () => true,
        () => false,
      )
      await engine.close().catch(() => undefined)
      await open()
      const [first, second] = [await engine.sessions.open(parent.id), await engine.sessions.open(fork.id)]
      expect(await textOf(first, '/b')).toBe(`${commits} 4`.repeat(300))
      expect(await textOf(second, '/b')).toBe(`${commits} 2`.repeat(300))
      await first.restore({ checkpointLabel: '3' })
      expect(await textOf(first, '/b')).toBe(`${commits} 3`.repeat(300))
      await first.events.verify()
      await reopen()
      await engine.collect()
      await expectNoGarbage(store, [
        await engine.sessions.open(parent.id),
        await engine.sessions.open(fork.id),
      ])
      for (const { id } of [parent, fork]) await engine.sessions.delete(id)
      if (through) return
      expect(commits).toBeLessThan(100)
    }
  }, 60_000)

  test('leaves a consistent store for later collections after an interruption', async () => {
    for (let commits = 0; ; commits += stepOf(6)) {
      const failing = new FailingStorage(storage)
      await engine.close()
      engine = await openEngine({ storage: failing })
      const write = (session: Session, i: number): Promise<void> =>
        session.files.write({ path: '/b', content: `${commits} ${i}`.repeat(300) })
      const parent = await engine.sessions.create({ files: { '/a': 'a' } })
      await write(parent, 1)
      const fork = await parent.fork()
      await write(parent, 2)
      await write(fork, 3)
      await fork.checkpoint({ checkpointLabel: '3' })
      await write(fork, 4)
      const other = await fork.fork()
      await fork.restore({ checkpointLabel: '3' })
      await fork.files.write({ path: '/c', content: 'c' })
      await fork.checkpoint({ checkpointLabel: 'c' })
      await fork.deleteCheckpoint({ checkpointLabel: '3' })
      failing.failAfter(commits)
      const through = await engine.collect().then(
        () => true,
        () => false,
      )
      // Skips the snapshots that an orderly close writes.
      await store.close()
      await open()
      for (const keepRedo of [true, false, true]) {
        for (const { id } of [parent, fork, other])
          await (await engine.sessions.open(id)).files.write({ path: '/d', content: `${keepRedo}` })
        // With those snapshots, there is a newer one than needed.
        await reopen()
        await engine.collect({ keepRedo })
        expect((await engine.check({ readData: true })).findings).toEqual([])
        await store.close()
        await open()
        for (const [session, content] of [
          [parent, 2],
          [fork, 3],
          [other, 4],
        ] as const)
          expect(await textOf(await engine.sessions.open(session.id), '/b')).toBe(
            `${commits} ${content}`.repeat(300),
          )
        const again = await engine.sessions.open(fork.id)
        await again.restore({ checkpointLabel: 'c' })
        expect(await textOf(again, '/c')).toBe('c')
      }
      for (const { id } of [parent, fork, other]) await engine.sessions.delete(id)
      if (through) return
      expect(commits).toBeLessThan(100)
    }
  }, 60_000)

  test('stops on a signal and when the engine is closed', async () => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 10; i++) await session.files.write({ path: '/a', content: `${i}` })
    await expect(engine.collect({ signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow('no')
    const abort = new AbortController()
    const stages: CollectProgress['stage'][] = []
    const aborted = engine.collect({
      signal: abort.signal,
      onProgress: ({ stage }) => {
        if (stage === 'mark') abort.abort(new Error('enough'))
        stages.push(stage)
      },
    })
    await expect(aborted).rejects.toThrow('enough')
    expect(stages).not.toContain('sweep')
    const [first, second] = [engine.collect(), engine.collect()]
    expect((await first).deletedBlobs).toBe(9)
    expect((await second).deletedBlobs).toBe(0)
    const last = engine.collect().catch((error: unknown) => error)
    await engine.close()
    expect(await last).toSatisfy((outcome) => outcome !== undefined)
    await expect(engine.collect()).rejects.toEqual(refused('STORE_CLOSED'))
  })

  test('stops at a damaged state before it deletes anything', async () => {
    const session = await engine.sessions.create({ files: { '/a/b': 'b' } })
    await session.files.write({ path: '/a/c', content: 'c' })
    await engine.collect()
    await session.files.write({ path: '/a/c', content: 'other' })
    await reopen()
    const [, json] = (await store.scan({ gte: 'r', lt: prefixEnd('r'), limit: 10 })).at(-1)!
    const { root } = JSON.parse(json) as { root: string[] }
    await store.commit({ del: [keys.node(root[6]!)] })
    const before = await store.listBlobs!('', 100)
    await expect(engine.collect()).rejects.toEqual(refused('DATA_LOSS'))
    expect(await store.listBlobs!('', 100)).toEqual(before)
  })

  test('does not reread events without new changes', async () => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 3; i++) await session.files.write({ path: '/a', content: `${i}`.repeat(100) })
    expect(await engine.collect()).toMatchObject({ prunedEvents: 3 })
    let reads = 0
    const events = store.events.bind(store)
    store.events = (...range) => {
      reads++
      return events(...range)
    }
    await engine.collect()
    expect(reads).toBe(0)
    await session.files.write({ path: '/a', content: 'last' })
    await engine.collect()
    expect(reads).toBeGreaterThan(0)
  })

  test('deletes an incomplete session without a trace', async () => {
    const session = await engine.sessions.create()
    const [[key, json]] = (await store.scan({ gte: 's', lt: 't', limit: 1 })) as [[string, string]]
    // The state that an import leaves when it ends before its last commit.
    const { createdAt, ...record } = JSON.parse(json) as { createdAt: number }
    const id = session.id.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
    const unfinished = { ...record, id, createdAt, deletedAt: createdAt }
    await store.commit({ put: [[key.replace(session.id, id), unfinished]] })
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    expect(await count(keyPrefixes.session)).toBe(1)
    expect(await count(keyPrefixes.usageRollup)).toBe(0)
  })

  test('usage counts data until its deletion', async () => {
    const environment = fixedEnvironment({ stepMs: 0 })
    await reopen({ environment })
    const start = environment.wallClockMs()
    const at = (hours: number): string => new Date(start + hours * 3_600_000).toISOString()
    const session = await engine.sessions.create()
    await session.files.write({ path: '/a', content: Buffer.alloc(1_000_000, 'a') })
    await session.files.write({ path: '/b', content: Buffer.alloc(500_000, 'b') })
    await session.files.write({ path: '/c', content: Buffer.alloc(500_000, 'b') })
    environment.advance(10 * 3_600_000)
    await session.files.delete({ path: '/a' })
    await engine.collect()
    environment.advance(10 * 3_600_000)
    for (let times = 0; times < 2; times++) {
      expect(await engine.usage.metrics()).toEqual({
        objectCount: 1,
        storedBytes: 500_000,
        logicalBytes: 1_000_000,
        dedupRatio: 2,
      })
      const { storageGbMonth } = await engine.usage.get({ windowStart: at(0), windowEnd: at(20) })
      expect(storageGbMonth * 720 * 1e9).toBeCloseTo(1_000_000 * 10 + 500_000 * 20, 0)
      const later = await engine.usage.get({ windowStart: at(12), windowEnd: at(20) })
      expect(later.storageGbMonth * 720 * 1e9).toBeCloseTo(500_000 * 8, 0)
      await engine.collect()
      await reopen({ environment })
    }
  })
})

async function hashOf(session: Session, path: string): Promise<string> {
  return (await session.files.readWithHash({ path })).contentHash
}

test('collects only records in memory', async () => {
  const storage = memoryStorage()
  let store: Store | undefined
  const engine = await openEngine({ storage: { open: async () => (store = await storage.open()) } })
  const session = await engine.sessions.create({ files: { '/a': 'a' } })
  await session.checkpoint({ checkpointLabel: 'one' })
  await session.deleteCheckpoint({ checkpointLabel: 'one' })
  expect(await engine.collect()).toMatchObject({ freedBytes: 0 })
  const others = [await session.fork(), await engine.sessions.create()]
  for (const other of others) {
    await other.checkpoint({ checkpointLabel: 'two' })
    await other.cache.put({ key: 'k', value: Buffer.from('v') })
    await other.bus.publish({ topic: 't', payload: Buffer.from('p') })
    await other.delete()
  }
  expect(await engine.collect()).toMatchObject({ deletedSessions: 2 })
  for (const { id } of others) {
    const records = await store!.scan({ gte: '', lt: '\u{10ffff}', limit: 10_000 })
    expect(records.filter(([key]) => key.includes(id))).toEqual([])
    await expect(engine.sessions.open(id)).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  }
  expect(await engine.collect()).toMatchObject({ deletedSessions: 0 })
  expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a')
  await engine.close()
})

describe('a long history', () => {
  test('takes at most twice the live size plus the public events', async () => {
    const { live, publicEvents, stored } = await longHistory(1000)
    expect(stored).toBeLessThan(2 * live + publicEvents)
  }, 60_000)
})
