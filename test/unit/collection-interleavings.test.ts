import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openRepository } from '../../src/engine/contract.js'
import { keys, limits, type ScanRange, type StoreCommit } from '../../src/engine/ports.js'
import { keyPrefixes } from '../../src/engine/storage/keys.js'
import { Residency } from '../../src/engine/session/table/residency.js'
import {
  memoryStorage,
  openEngine,
  type Engine,
  type EngineOptions,
  type Session,
  type Storage,
} from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { isComplete } from '../support/seed.js'
import { SteppedStorage, type Held } from '../support/stepped-storage.js'

/** Interleaves collections with one other operation, step by step. */

let directory: string
let storage: SteppedStorage
let engine: Engine

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'collection-interleavings-'))
  storage = new SteppedStorage(levelStorage(join(directory, 'data'), { durability: 'relaxed' }))
  await open()
})

afterEach(async () => {
  await engine.close().catch(() => undefined)
  await rm(directory, { recursive: true, force: true })
})

async function open(options: Omit<EngineOptions, 'storage'> = {}): Promise<void> {
  engine = await openEngine({ storage, memoryBudgetBytes: 2 ** 20, ...options })
}

/** Reopens the engine; closing writes snapshots. */
async function reopen(options?: Omit<EngineOptions, 'storage'>): Promise<void> {
  await engine.close()
  await open(options)
}

/** Reopens the engine without the snapshots that closing writes. */
async function crash(): Promise<void> {
  await storage.store.close()
  await engine.close().catch(() => undefined)
  await open()
}

const textOf = (session: Session, path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

async function expectWhole(): Promise<void> {
  expect((await engine.check({ readData: true })).findings).toEqual([])
}

const allSessions = ({ gte, reverse }: { gte: string; reverse?: boolean }): boolean =>
  gte === keys.allSessions() && reverse === true

describe('a session that is about to expire', () => {
  const ttlSeconds = 3600
  const environment = fixedEnvironment({ stepMs: 0 })

  test('is kept if it is used after the collection read its last use', async () => {
    await reopen({ environment })
    const { id } = await engine.sessions.create({ ttlSeconds, files: { '/a': 'a' } })
    await reopen({ environment })
    environment.advance(ttlSeconds * 1000 - 1)
    const read = storage.hold('lastEvent', (sessionId) => sessionId === id, 'after')
    const collecting = engine.collect()
    await read.reached
    const session = await engine.sessions.open(id)
    await session.files.write({ path: '/a', content: 'b' })
    environment.advance(1)
    read.release()
    expect((await collecting).deletedSessions).toBe(0)
    expect(await textOf(session, '/a')).toBe('b')
    environment.advance(ttlSeconds * 1000)
    expect((await engine.collect()).deletedSessions).toBe(1)
  })

  test('is kept if a change that was called in time comes later', async () => {
    await reopen({ environment })
    const { id } = await engine.sessions.create({ ttlSeconds, files: { '/a': `X${'a'.repeat(10_000)}` } })
    await reopen({ environment })
    const session = await engine.sessions.open(id)
    environment.advance(ttlSeconds * 1000 - 1)
    const loading = storage.hold('blob', () => true)
    const writing = session.text.edit({ path: '/a', oldText: 'X', newText: 'b' })
    await loading.reached
    environment.advance(1)
    const collecting = engine.collect()
    await storage.quiet()
    loading.release()
    await writing
    expect((await collecting).deletedSessions).toBe(0)
    expect(await textOf(session, '/a')).toBe(`b${'a'.repeat(10_000)}`)
  })
})

test("waits for a session that is being opened before it removes the session's redo", async () => {
  const session = await engine.sessions.create()
  for (let i = 0; i < 5; i++) await session.files.write({ path: '/a', content: `${i}`.repeat(500) })
  await crash()
  const replay = storage.hold('events', (sessionId) => sessionId === session.id)
  const opening = engine.sessions.open(session.id)
  await replay.reached
  const collecting = engine.collect()
  await storage.quiet()
  replay.release()
  expect(await textOf(await opening, '/a')).toBe('4'.repeat(500))
  expect(await collecting).toMatchObject({ prunedEvents: 5, deletedBlobs: 4 })
  await expectWhole()
})

test('waits for a fork that was called before its parent was deleted', async () => {
  const created = await engine.sessions.create()
  await created.files.write({ path: '/a', content: 'kept'.repeat(100) })
  await created.checkpoint({ checkpointLabel: 'kept' })
  await created.files.write({ path: '/a', content: 'last' })
  await reopen()
  const parent = await engine.sessions.open(created.id)
  const labels = storage.hold('scan', ({ gte }) => gte.startsWith(keys.checkpoints(parent.id)))
  const forking = parent.fork({ checkpointLabel: 'kept' })
  await labels.reached
  await parent.delete()
  const collecting = engine.collect()
  await storage.quiet()
  labels.release()
  const fork = await forking
  expect(await collecting).toMatchObject({ deletedSessions: 0 })
  await crash()
  expect(await textOf(await engine.sessions.open(fork.id), '/a')).toBe('kept'.repeat(100))
  await expectWhole()
})

/** Lowers the numbers of sessions that a collection processes together. */
function pruneFewAtOnce(): void {
  lowerBound(limits, 'sessionsPerPrune', 4)
  lowerBound(limits, 'collectedAtOnce', 2)
}

test('removes redo from at most 1,024 sessions at a time', async () => {
  if (!isComplete) pruneFewAtOnce()
  const count = limits.sessionsPerPrune + 3
  const inner = memoryStorage({ durable: true })
  let pruned = 0
  const prunedAtScans: number[] = []
  const counted: Storage = {
    open: async () => {
      const store = await inner.open()
      const commit = store.commit.bind(store)
      const scan = store.scan.bind(store)
      return Object.assign(store, {
        commit(one: StoreCommit) {
          pruned += one.replaceEvents?.length ?? 0
          return commit(one)
        },
        scan(range: ScanRange) {
          if (allSessions(range)) prunedAtScans.push(pruned)
          return scan(range)
        },
      })
    },
  }
  const many = await openEngine({ storage: counted })
  for (let i = 0; i < count; i++) {
    const session = await many.sessions.create()
    await session.files.write({ path: '/a', content: 'a' })
  }
  expect((await many.collect()).prunedEvents).toBe(count)
  expect([...new Set(prunedAtScans)]).toEqual([0, limits.sessionsPerPrune, count])
  await many.close()
})

test('prepares all sessions before it removes redo, including forks ordered late by a clock step back', async () => {
  if (!isComplete) lowerBound(limits, 'sessionsPerPrune', 4)
  const durable = new SteppedStorage(memoryStorage({ durable: true }))
  const startMs = Date.UTC(2025, 0, 1)
  const hourMs = 3_600_000
  const openAt = (hour: number): Promise<Engine> =>
    openEngine({ storage: durable, environment: fixedEnvironment({ startMs: startMs + hour * hourMs }) })
  const first = await openAt(2)
  const { id } = await first.sessions.create()
  await (await first.sessions.open(id)).files.write({ path: '/a', content: 'kept'.repeat(100) })
  await first.close()
  const second = await openAt(0)
  const fork = await (await second.sessions.open(id)).fork()
  for (let i = 0; i < limits.sessionsPerPrune; i++) {
    const session = await second.sessions.create()
    await session.files.write({ path: '/a', content: 'a' })
  }
  // Closing the engine would write snapshots.
  await durable.store.close()
  await second.close().catch(() => undefined)
  expect(fork.id < id).toBe(true)
  const third = await openAt(3)
  const parent = await third.sessions.open(id)
  await parent.files.write({ path: '/a', content: 'last' })
  await third.collect()
  expect(await textOf(await third.sessions.open(fork.id), '/a')).toBe('kept'.repeat(100))
  await third.close()
})

test('counts the contents of a running import', async () => {
  const files = { '/a': randomBytes(6 * 2 ** 20), '/b': randomBytes(2 * 2 ** 20) }
  const exported = await openEngine()
  const tar: Uint8Array[] = []
  for await (const piece of (await exported.sessions.create({ files })).exportTar()) tar.push(piece)
  await exported.close()
  const content = Buffer.concat(tar)
  let [reach, goOn] = [(): void => undefined, (): void => undefined]
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const gate = new Promise<void>((resolve) => {
    goOn = resolve
  })
  const { sourceId } = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
  const job = await engine.sources.startImport(sourceId, {
    uploadedSnapshot: {
      content: (async function* () {
        yield content.subarray(0, 7 * 2 ** 20)
        reach()
        await gate
        yield content.subarray(7 * 2 ** 20)
      })(),
    },
  })
  await reached
  await storage.quiet()
  const before = await engine.usage.metrics()
  expect(before.storedBytes).toBeGreaterThan(2 ** 20)
  await engine.collect()
  expect(await engine.usage.metrics()).toEqual(before)
  goOn()
  await engine.sources.waitForJob(job)
  await expectWhole()
})

test('keeps the deleted ancestors of a deleted session that is being forked', async () => {
  const grandparent = await engine.sessions.create()
  await grandparent.files.write({ path: '/a', content: 'kept'.repeat(100) })
  const forked = await grandparent.fork()
  await forked.checkpoint({ checkpointLabel: 'kept' })
  await forked.files.write({ path: '/a', content: 'last' })
  await grandparent.delete()
  await crash()
  const parent = await engine.sessions.open(forked.id)
  const labels = storage.hold('scan', ({ gte }) => gte.startsWith(keys.checkpoints(parent.id)))
  const forking = parent.fork({ checkpointLabel: 'kept' })
  await labels.reached
  // It has no snapshot of its own: its states depend on those of its parent.
  await parent.delete()
  const collecting = engine.collect()
  await storage.quiet()
  labels.release()
  const fork = await forking
  await collecting
  await crash()
  expect(await textOf(await engine.sessions.open(fork.id), '/a')).toBe('kept'.repeat(100))
  expect((await engine.collect()).deletedSessions).toBe(2)
  await expectWhole()
})

test('keeps the nodes of a deleted snapshot while a replay starts from it', async () => {
  const created = await engine.sessions.create()
  await created.checkpoint({ checkpointLabel: 'first' })
  await created.files.write({ path: '/d/only-then', content: 'then' })
  await reopen()
  const again = await engine.sessions.open(created.id)
  await again.files.write({ path: '/d/other', content: 'other' })
  await again.checkpoint({ checkpointLabel: 'middle' })
  await again.files.delete({ path: '/d/only-then' })
  await reopen()
  const session = await engine.sessions.open(created.id)
  const snapshots = `r${session.id}`
  const dropping = storage.hold('commit', ({ del }) => del?.some((key) => key.startsWith(snapshots)) ?? false)
  const collecting = engine.collect()
  await dropping.reached
  const replay = storage.hold('events', (sessionId) => sessionId === session.id)
  const forking = session.fork({ checkpointLabel: 'middle' })
  await replay.reached
  dropping.release()
  await storage.quiet()
  replay.release()
  expect((await (await forking).fs.promises.readdir('/d')).sort()).toEqual(['only-then', 'other'])
  await collecting
  await expectWhole()
})

test('keeps the states of all forks that are made during a collection', async () => {
  const parent = await engine.sessions.create()
  const contents = ['first', 'second', 'third'].map((text) => text.repeat(100))
  const write = (content: string | undefined): Promise<unknown> =>
    parent.files.write({ path: '/a', content: content ?? '' })
  await write(contents[0])
  await parent.checkpoint({ checkpointLabel: 'first' })
  await write(contents[1])
  const planned = storage.hold('scan', ({ gte }) => gte === keys.checkpoints(parent.id))
  const collecting = engine.collect()
  await planned.reached
  const newer = await parent.fork()
  await write(contents[2])
  const older = await parent.fork({ checkpointLabel: 'first' })
  await parent.deleteCheckpoint({ checkpointLabel: 'first' })
  planned.release()
  await collecting
  await crash()
  for (const [index, { id }] of [older, newer, parent].entries())
    expect(await textOf(await engine.sessions.open(id), '/a')).toBe(contents[index])
  await expectWhole()
})

test("sees a fork that was in the store's queue when the collection started", async () => {
  const parent = await engine.sessions.create()
  await parent.files.write({ path: '/a', content: 'kept'.repeat(100) })
  await parent.checkpoint({ checkpointLabel: 'kept' })
  const isSession = ({ put }: StoreCommit): boolean =>
    put?.some(([key]) => key.startsWith(keys.allSessions())) ?? false
  const stored = storage.hold('commit', isSession)
  const forking = parent.fork({ checkpointLabel: 'kept' })
  await stored.reached
  const others = [
    parent.deleteCheckpoint({ checkpointLabel: 'kept' }),
    parent.files.write({ path: '/a', content: 'last' }),
  ]
  storage.hold('scan', allSessions).release()
  const sessionsScan = storage.hold('scan', allSessions, 'after')
  const collecting = engine.collect()
  await storage.quiet()
  stored.release()
  const [fork] = await Promise.all([forking, ...others])
  sessionsScan.release()
  await collecting
  await crash()
  expect(await textOf(await engine.sessions.open(fork.id), '/a')).toBe('kept'.repeat(100))
  await expectWhole()
})

test('keeps the state of a checkpoint that was restored and deleted after the collection read the newest event', async () => {
  const session = await engine.sessions.create()
  await session.files.write({ path: '/a', content: 'kept'.repeat(100) })
  await session.checkpoint({ checkpointLabel: 'kept' })
  await session.files.write({ path: '/a', content: 'last' })
  const labels = storage.hold(
    'scan',
    ({ gte, reverse }) => gte === keys.checkpoints(session.id) && reverse === true,
  )
  const collecting = engine.collect()
  await labels.reached
  await session.restore({ checkpointLabel: 'kept' })
  await session.deleteCheckpoint({ checkpointLabel: 'kept' })
  labels.release()
  await collecting
  await crash()
  expect(await textOf(await engine.sessions.open(session.id), '/a')).toBe('kept'.repeat(100))
  await expectWhole()
})

test("sees a cache entry that was in the store's queue when marking started", async () => {
  const session = await engine.sessions.create()
  await session.cache.put({ key: 'a', value: 'a' })
  const value = Buffer.alloc(50_000, 'value ')
  const sourcesScan = storage.hold('scan', ({ gte }) => gte === keys.allSources())
  const collecting = engine.collect()
  await sourcesScan.reached
  const stored = storage.hold('commit', ({ blobs }) => (blobs?.length ?? 0) > 0)
  const putting = session.cache.put({ key: 'b', value })
  await stored.reached
  const entriesScan = storage.hold(
    'scan',
    ({ gte, reverse }) => keys.cacheEntries(session.id).startsWith(gte) && reverse === true,
    'after',
  )
  sourcesScan.release()
  await storage.quiet()
  stored.release()
  await putting
  entriesScan.release()
  await collecting
  await reopen()
  const again = await engine.sessions.open(session.id)
  const found = await again.cache.get({ key: 'b' })
  expect(Buffer.compare(found.value, value)).toBe(0)
})

test('a key rotation does not overwrite a secret that changed during the rotation', async () => {
  const masterKey = (id: string, byte: number): { id: string; key: Uint8Array } => ({
    id,
    key: new Uint8Array(32).fill(byte),
  })
  await reopen({ secrets: { masterKey: masterKey('one', 1) } })
  const created = await engine.sessions.create()
  await created.secrets.put({ secretName: 'NAME', secretValue: 'old' })
  await reopen({ secrets: { masterKey: masterKey('two', 2), previousKeys: [masterKey('one', 1)] } })
  const read = storage.hold('scan', ({ gte }) => gte.startsWith(keys.secrets(created.id)), 'after')
  const rotating = engine.rotateSecrets()
  await read.reached
  const session = await engine.sessions.open(created.id)
  await session.secrets.put({ secretName: 'NAME', secretValue: 'new' })
  read.release()
  await rotating
  await reopen({ secrets: { masterKey: masterKey('two', 2) } })
  const again = await engine.sessions.open(created.id)
  expect((await again.secrets.get({ secretName: 'NAME' })).secretValue.reveal()).toBe('new')
})

test('keeps a content while it is being read', async () => {
  const content = Buffer.alloc(6 * 2 ** 20, 'large ')
  const created = await engine.sessions.create()
  await created.files.write({ path: '/large', content })
  await reopen()
  const session = await engine.sessions.open(created.id)
  const read = storage.hold('blob', () => true)
  const reading = session.files.read({ path: '/large' })
  await read.reached
  await session.files.delete({ path: '/large' })
  await engine.collect()
  read.release()
  expect(Buffer.compare(await reading, content)).toBe(0)
  await engine.collect()
  expect(await storage.store.listBlobs!('', 10)).toEqual([])
})

test('with keepRedo keeps extended attribute values that redo references', async () => {
  const session = await engine.sessions.create({ files: { '/a': '' } })
  for (const value of ['first', 'second'])
    await session.files.setXattr({ path: '/a', name: 'user.x', value: value.repeat(100) })
  const before = await storage.store.listBlobs!('', 10)
  await engine.collect({ keepRedo: true })
  expect(await storage.store.listBlobs!('', 10)).toEqual(before)
  expect((await engine.collect()).deletedBlobs).toBe(1)
})

describe('with a tree in memory from a deleted snapshot', () => {
  /** Replays the checkpoint `middle` from a snapshot that the next collection deletes. */
  async function withMiddle(): Promise<Session> {
    const created = await engine.sessions.create()
    await created.checkpoint({ checkpointLabel: 'first' })
    await created.files.write({ path: '/then/a', content: 'a' })
    await reopen()
    const again = await engine.sessions.open(created.id)
    await again.files.write({ path: '/b', content: 'b' })
    await again.checkpoint({ checkpointLabel: 'middle' })
    await again.files.delete({ path: '/then/a' })
    await reopen()
    return engine.sessions.open(created.id)
  }

  async function collectTwice(session: Session): Promise<void> {
    const snapshots = async (): Promise<number> =>
      (await storage.store.scan({ gte: `r${session.id}`, lt: `r${session.id}~`, limit: 10 })).length
    const before = await snapshots()
    expect((await engine.collect()).deletedRecords).toBeGreaterThan(0)
    await engine.collect()
    expect(await snapshots()).toBeLessThanOrEqual(before)
  }

  test('the newest state stays readable', async () => {
    const session = await withMiddle()
    await session.restore({ checkpointLabel: 'middle' })
    await collectTwice(session)
    expect(await textOf(session, '/then/a')).toBe('a')
  })

  test('the state of a checkpoint stays readable', async () => {
    const session = await withMiddle()
    await (await session.fork({ checkpointLabel: 'middle' })).delete()
    await collectTwice(session)
    await session.restore({ checkpointLabel: 'middle' })
    expect(await textOf(session, '/then/a')).toBe('a')
  })

  test('an evicted session stays readable when it is revived', async () => {
    const session = await withMiddle()
    await session.restore({ checkpointLabel: 'middle' })
    // The spy keeps the evicted session, as an operation would.
    const evict = vi.spyOn(Residency.prototype, 'evict')
    try {
      const base = await engine.sessions.create({ files: { '/x': 'x' } })
      const isEvicted = (): boolean => evict.mock.calls.some(([{ id }]) => id === session.id)
      for (let i = 0; i < 2000 && !isEvicted(); i++)
        await (await base.fork()).files.write({ path: '/x', content: `${i}` })
      expect(isEvicted()).toBe(true)
      await collectTwice(session)
      expect(await textOf(session, '/then/a')).toBe('a')
    } finally {
      evict.mockRestore()
    }
  })
})

test.each(['undo', 'restore', 'fork'] as const)(
  'keeps the earlier state that %s refers to after the collection decided what to remove',
  async (way) => {
    const session = await engine.sessions.create()
    const { eventId } = await session.files.write({ path: '/a', content: 'kept'.repeat(100) }).then(newest)
    await session.files.write({ path: '/a', content: 'last'.repeat(100) })
    const snapshot = storage.hold('commit', ({ put }) => isSnapshotOf(session, put))
    const collecting = engine.collect()
    await snapshot.reached
    const changing =
      way === 'undo'
        ? session.undo().then(() => session)
        : way === 'restore'
          ? session.restore({ from: { eventId } }).then(() => session)
          : session.fork({ from: { eventId } })
    await storage.quiet()
    snapshot.release()
    const { id } = await changing
    await collecting
    await crash()
    expect(await textOf(await engine.sessions.open(id), '/a')).toBe('kept'.repeat(100))
    await expectWhole()
    await engine.collect()
    await crash()
    expect(await textOf(await engine.sessions.open(id), '/a')).toBe('kept'.repeat(100))
    await expectWhole()

    async function newest(): Promise<{ eventId: string }> {
      return (await session.events.list()).events.at(-1)!
    }
  },
)

const isSnapshotOf = (session: Session, put: StoreCommit['put'] = []): boolean =>
  put.some(([key]) => key.startsWith(keys.snapshots(session.id)))

test('keeps a content that was stored before a batch while the batch loads a directory', async () => {
  await engine.close()
  storage = new SteppedStorage(memoryStorage({ durable: true, syncReads: false }))
  await open()
  const { id } = await engine.sessions.create({ files: { '/d/e/a': 'a' } })
  await reopen()
  const session = await engine.sessions.open(id)
  await session.fs.promises.readdir('/')
  const content = Buffer.alloc(limits.importCommitBytes + 1, 'large ')
  const loading = storage.hold('get', (key) => key.startsWith(keys.allNodes()))
  const batch = session.files.batch([
    { write: { path: '/large', content } },
    { write: { path: '/d/e/a', content: 'b' } },
  ])
  await loading.reached
  await engine.collect()
  loading.release()
  await batch
  expect(Buffer.compare(await session.files.read({ path: '/large' }), content)).toBe(0)
})

test('keeps the state that the abort of a merge makes the newest one while the collection starts to mark', async () => {
  const session = await engine.sessions.create({ files: { '/d/a': 'base' } })
  const fork = await session.fork()
  for (const path of ['/d/a', '/d/b']) await fork.files.write({ path, content: 'theirs' })
  const settled = storage.hold('scan', ({ gte }) => gte === keys.allSources())
  const marking = storage.hold('scan', ({ gte }) => gte === keyPrefixes.merge)
  const collecting = engine.collect()
  await settled.reached
  // No snapshot has this state, and the merge stores its tree.
  await session.files.write({ path: '/d/a', content: 'ours' })
  expect((await session.merge(fork)).conflicts).toHaveLength(1)
  settled.release()
  await marking.reached
  await session.conflicts.abort()
  marking.release()
  await collecting
  await reopen()
  expect(await textOf(await engine.sessions.open(session.id), '/d/a')).toBe('ours')
  await expectWhole()
})

/**
 * Gives the session a tree whose nodes are stored, although no record refers to them: the merge stored them, and its abort
 * deleted the record. `other` has another content at `/d/a`.
 */
async function storeUnreferenced(session: Session, other: Session): Promise<void> {
  await session.files.write({ path: '/d/a', content: 'ours' })
  expect((await session.merge(other)).conflicts).toHaveLength(1)
  await session.conflicts.abort()
}

test('keeps the tree of a fork whose parent changes before the fork is stored', async () => {
  const created = await engine.sessions.create({ files: { '/d/a': 'base' } })
  const other = await created.fork()
  await other.files.write({ path: '/d/a', content: 'theirs' })
  await reopen()
  const session = await engine.sessions.open(created.id)
  const settled = storage.hold('scan', ({ gte }) => gte === keys.allSources())
  const collecting = engine.collect()
  await settled.reached
  await storeUnreferenced(session, await engine.sessions.open(other.id))
  const tips = storage.hold('scan', ({ gte }) => gte === keys.branchTips(session.id))
  const forking = session.fork()
  await tips.reached
  await session.fs.promises.rm('/d', { recursive: true })
  settled.release()
  await collecting
  tips.release()
  const fork = await forking
  await reopen()
  expect(await textOf(await engine.sessions.open(fork.id), '/d/a')).toBe('ours')
  await expectWhole()
})

test('keeps the trees of several bases of a merge while it looks for the next one', async () => {
  const start = await engine.sessions.create({ files: { '/d/a': 'base', '/both': 'base' } })
  const settled = storage.hold('scan', ({ gte }) => gte === keys.allSources())
  const collecting = engine.collect()
  await settled.reached
  const [one, another, other] = [await start.fork(), await start.fork(), await start.fork()]
  await other.files.write({ path: '/d/a', content: 'theirs' })
  await start.files.write({ path: '/later', content: 'later' })
  await storeUnreferenced(one, other)
  await another.files.write({ path: '/another', content: 'another' })
  // Each of the two merged sessions has both states as ancestors, but no step refers to the states themselves.
  const [ours, theirs] = [await one.fork(), await another.fork()]
  const [ofOne, ofAnother] = [await one.fork(), await another.fork()]
  for (const session of [ours, ofOne]) await session.fs.promises.rm('/d', { recursive: true })
  await ofAnother.files.write({ path: '/of-another', content: 'x' })
  await ours.merge(ofAnother)
  await theirs.merge(ofOne, { policies: [{ glob: '**', policy: 'theirs' }] })
  await ours.files.write({ path: '/both', content: 'ours' })
  await theirs.files.write({ path: '/both', content: 'theirs' })
  const search = storage.hold('scan', ({ gte }) => gte === keys.snapshots(start.id))
  const merging = ours.merge(theirs)
  await search.reached
  await one.fs.promises.rm('/d', { recursive: true })
  settled.release()
  await collecting
  search.release()
  expect((await merging).conflicts).not.toHaveLength(0)
  await expectWhole()
  await engine.collect()
  await expectWhole()
})

test('serves commits of a session whose last served state a collection removed', async () => {
  const session = await engine.sessions.create({ files: { '/d/a': 'base' } })
  const other = await session.fork()
  await other.files.write({ path: '/d/a', content: 'theirs' })
  await session.files.write({ path: '/d/a', content: 'ours' })
  const large = await engine.sessions.create()
  for (let i = 0; i < 100; i++) {
    const operations = Array.from({ length: 50 }, (_, j) => ({ path: `/d${i}/${j}`, content: `${i} ${j}` }))
    await large.files.batch(operations.map((write) => ({ write })))
  }
  const repository = await openRepository(engine, session.id)
  const { commitId } = await repository.head()
  // Another time, which git does not have.
  await session.fs.promises.utimes('/d/a', 1, 1)
  expect(await repository.head()).toMatchObject({ commitId })
  expect((await session.merge(other)).conflicts).toHaveLength(1)
  await session.conflicts.abort()
  await session.files.write({ path: '/d/b', content: 'b' })
  await engine.collect()
  // Unloads the other trees in memory.
  for (let i = 0; i < 3; i++) await large.manifest({ pageSize: 10_000 })
  expect((await repository.head()).commitId).not.toBe(commitId)
  await expectWhole()
})

test('does not restore a collected state because an abort restored it before', async () => {
  const session = await engine.sessions.create({ files: { '/a': 'base' } })
  const fork = await session.fork()
  await session.files.write({ path: '/a', content: 'ours'.repeat(100) })
  const { eventId } = (await session.events.list()).events.at(-1)!
  await fork.files.write({ path: '/a', content: 'theirs' })
  await session.merge(fork)
  await session.files.write({ path: '/b', content: 'b'.repeat(100) })
  await session.conflicts.abort()
  await session.files.write({ path: '/a', content: 'last'.repeat(100) })
  await engine.collect()
  await expect(session.restore({ from: { eventId } })).rejects.toThrow(/is no longer kept/)
  await crash()
  expect(await textOf(await engine.sessions.open(session.id), '/a')).toBe('last'.repeat(100))
  await expectWhole()
})

test('exports a bundle whose directories are stored meanwhile', async () => {
  const environment = fixedEnvironment({ stepMs: limits.sliceMs })
  for (let turns = 0; turns < 12; turns++) {
    const other = await openEngine({ storage: memoryStorage({ durable: true }), environment })
    const session = await other.sessions.create()
    await session.files.batch(
      Array.from({ length: 30 }, (_, i) => ({
        write: { path: `/d${i % 5}/e${i % 3}/f${i}`, content: `${i}` },
      })),
    )
    const exporting = (async () => {
      let bytes = 0
      for await (const chunk of session.exportBundle()) bytes += chunk.length
      return bytes
    })()
    for (let i = 0; i < turns; i++) await nextTurn()
    await Promise.all([session.fork(), other.collect()])
    expect(await exporting).toBeGreaterThan(0)
    await other.close()
  }
})

/** A fork whose first state no snapshot has. `change` makes changes of the parent. */
async function forkAfter(change: (parent: Session) => Promise<Session>): Promise<{
  readonly parent: Session
  readonly forkId: string
  readonly first: { readonly eventId: string }
}> {
  const created = await engine.sessions.create({ files: { '/a': 'base' } })
  await created.files.write({ path: '/a', content: 'first'.repeat(100) })
  const parent = await change(created)
  const fork = await parent.fork()
  const { eventId } = (await fork.events.list()).events.at(-1)!
  await fork.files.write({ path: '/a', content: 'last'.repeat(100) })
  return { parent, forkId: fork.id, first: { eventId } }
}

/** Reads an early state of a fork. The collection deletes the parent while the read of its events is held. */
async function expectNotKept(
  deletion: Held,
  isRead: (sessionId: string, range: { readonly from: number }) => boolean,
  begin: () => Promise<unknown>,
): Promise<void> {
  const collecting = engine.collect()
  await deletion.reached
  const read = storage.hold('events', isRead)
  const reading = begin()
  reading.catch(() => undefined)
  await read.reached
  deletion.release()
  await storage.quiet()
  read.release()
  await expect(reading).rejects.toMatchObject({ reason: 'STATE_NOT_KEPT' })
  await collecting
  await expectWhole()
}

test('does not report data loss to a reader of an earlier state while it deletes the parent', async () => {
  const { parent, forkId, first } = await forkAfter((session) => Promise.resolve(session))
  await parent.delete()
  await crash()
  const fork = await engine.sessions.open(forkId)
  const deletion = storage.hold('commit', ({ deleteEvents = [] }) => deleteEvents.includes(parent.id))
  await expectNotKept(
    deletion,
    (sessionId) => sessionId === parent.id,
    () => fork.at(first),
  )
  expect(await textOf(fork, '/a')).toBe('last'.repeat(100))
})

test.each(['at', 'restore', 'fork'] as const)(
  '%s of an earlier state skips no events that a collection deletes with the parent',
  async (way) => {
    const { parent, forkId, first } = await forkAfter(async (session) => {
      const before = (await session.events.list()).events.at(-1)!
      await session.files.write({ path: '/a', content: 'second'.repeat(100) })
      // Replay starts from the snapshot of this close, and continues before it.
      await reopen()
      const again = await engine.sessions.open(session.id)
      await again.restore({ from: { eventId: before.eventId } })
      return again
    })
    await parent.delete()
    await crash()
    const fork = await engine.sessions.open(forkId)
    const records = storage.hold('commit', ({ del }) => hasSnapshotOf(parent, del))
    const ways: Record<typeof way, () => Promise<unknown>> = {
      at: () => fork.at(first),
      restore: () => fork.restore({ from: first }),
      fork: () => fork.fork({ from: first }),
    }
    await expectNotKept(records, (sessionId, { from }) => sessionId === parent.id && from === 1, ways[way])
    expect(await textOf(fork, '/a')).toBe('last'.repeat(100))
  },
)

test('keeps the nodes of a deleted parent while a replay starts from its snapshot', async () => {
  await engine.close()
  storage = new SteppedStorage(memoryStorage({ durable: true, syncReads: false }))
  await open()
  const { parent, forkId, first } = await forkAfter(async (session) => {
    await session.files.write({ path: '/d/only-then', content: 'then' })
    await reopen()
    const again = await engine.sessions.open(session.id)
    await again.files.write({ path: '/d/other', content: 'other' })
    return again
  })
  // Stores the first state of the fork. The next collection removes it before it deletes the parent.
  await engine.collect({ keepRedo: true })
  await parent.delete()
  await crash()
  const fork = await engine.sessions.open(forkId)
  const records = storage.hold('commit', ({ del }) => hasSnapshotOf(parent, del))
  const collecting = engine.collect()
  await records.reached
  const node = storage.hold('get', (key) => key.startsWith(keys.allNodes()))
  const forking = fork.fork({ from: first })
  await node.reached
  records.release()
  await storage.quiet()
  node.release()
  const made = await forking
  await collecting
  expect((await made.fs.promises.readdir('/d')).sort()).toEqual(['only-then', 'other'])
  await crash()
  expect(await textOf(await engine.sessions.open(made.id), '/a')).toBe('first'.repeat(100))
  await expectWhole()
})

test('keeps the base of a merge that only the record of the merged session has, although that is deleted', async () => {
  const created = await engine.sessions.create()
  await created.files.write({ path: '/d/base', content: 'base' })
  const forked = await created.fork()
  await created.files.write({ path: '/d/ours', content: 'ours' })
  await forked.files.write({ path: '/d/theirs', content: 'theirs' })
  await engine.collect()
  await crash()
  const target = await engine.sessions.open(created.id)
  const source = await engine.sessions.open(forked.id)
  const lineage = storage.hold('scan', ({ gte }) => gte.startsWith(keys.lineages(source.id)), 'after')
  const merging = target.merge(source)
  await lineage.reached
  await source.delete()
  const collecting = engine.collect()
  await storage.quiet()
  lineage.release()
  expect(await merging).toMatchObject({ merged: true, conflicts: [] })
  await collecting
  expect((await target.fs.promises.readdir('/d')).sort()).toEqual(['base', 'ours', 'theirs'])
  await expectWhole()
})

test('finds the base of a merge in a deleted session before it deletes the records of that session', async () => {
  const files = { '/start': 'start' }
  const [first, second, merged] = await Promise.all([
    engine.sessions.create({ files }),
    engine.sessions.create({ files }),
    engine.sessions.create({ files }),
  ])
  await merged.files.write({ path: '/kept', content: 'kept' })
  const { eventId } = (await merged.events.list()).events.at(-1)!
  await merged.files.write({ path: '/undone', content: 'undone' })
  await first.merge(merged)
  // Only the restore, which has no tree of its own, shows that the two merged states have an earlier one in common.
  await merged.restore({ from: { eventId } })
  await second.merge(merged)
  await merged.delete()
  // The scan for deleted sessions follows three others.
  for (let i = 0; i < 3; i++) storage.hold('scan', allSessions).release()
  const deletedScan = storage.hold('scan', allSessions)
  const collecting = engine.collect()
  await deletedScan.reached
  const replay = storage.hold('scan', ({ gte }) => gte.startsWith(keys.snapshots(merged.id)))
  const merging = second.merge(first)
  await replay.reached
  deletedScan.release()
  await storage.quiet()
  replay.release()
  expect(await merging).toMatchObject({ merged: true, conflicts: [] })
  expect(await collecting).toMatchObject({ deletedSessions: 1 })
  expect((await second.fs.promises.readdir('/')).sort()).toEqual(['kept', 'start', 'undone'])
  await expectWhole()
})

test('passes over a session whose import begins after the collection', async () => {
  const session = await engine.sessions.create()
  await session.files.write({ path: '/a', content: 'imported' })
  const pieces: Uint8Array[] = []
  for await (const piece of session.exportBundle()) pieces.push(piece)
  let goOn!: () => void
  const isRead = new Promise<void>((resolve) => (goOn = resolve))
  async function* unended(): AsyncGenerator<Uint8Array> {
    yield* pieces
    await isRead
  }
  storage.hold('scan', allSessions).release()
  const prepared = storage.hold('scan', allSessions)
  const collecting = engine.collect()
  await prepared.reached
  const events = storage.hold('commit', (commit) => (commit.events?.length ?? 0) > 0)
  const importing = engine.sessions.importBundle(unended())
  await events.reached
  events.release()
  // All events are stored now, but no snapshot.
  await storage.quiet()
  prepared.release()
  expect(await collecting).toMatchObject({ deletedSessions: 0, prunedEvents: 1 })
  goOn()
  expect(await textOf(await importing, '/a')).toBe('imported')
  await expectWhole()
})

test.each(['list', 'at'] as const)(
  '%s with a time does not report the log of a deleted session as lost',
  async (way) => {
    const session = await engine.sessions.create()
    for (let i = 0; i < 4; i++) await session.files.write({ path: '/a', content: `${i}` })
    const { timestamp } = (await session.events.list()).events[1]!
    await session.flush()
    const bodies = storage.hold(
      'events',
      (sessionId, { from, to }) => sessionId === session.id && from === to,
    )
    const reading =
      way === 'list'
        ? session.events.list({ startTime: timestamp })
        : session.at({ time: new Date(0).toISOString() })
    reading.catch(() => undefined)
    await bodies.reached
    await session.delete()
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    bodies.release()
    await expect(reading).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  },
)

const hasSnapshotOf = (session: Session, del: StoreCommit['del'] = []): boolean =>
  del.some((key) => key.startsWith(keys.snapshots(session.id)))

test('keeps the common ancestor of a fork and a session that is undone while a collection runs', async () => {
  const other = await engine.sessions.create()
  const session = await engine.sessions.create()
  await session.files.write({ path: '/first', content: 'first' })
  await session.files.write({ path: '/undone', content: 'undone' })
  const fork = await session.fork()
  await fork.files.write({ path: '/own', content: 'own' })
  const held = storage.hold('scan', ({ gte }) => gte === keys.snapshots(other.id))
  const collecting = engine.collect()
  await held.reached
  // By now, the collection has decided to keep only the newest state of the session.
  await storage.quiet()
  await session.undo()
  held.release()
  await collecting

  const files = ['/own', '/undone']
  for (const run of [1, 2]) {
    const { changes } = await session.merge(fork, { dryRun: true })
    expect([run, changes.map(({ path }) => path)]).toEqual([run, files])
    await session.files.write({ path: '/later', content: String(run) })
    await engine.collect()
  }
  await crash()
  const { changes } = await (await engine.sessions.open(session.id)).merge({ sessionId: fork.id })
  expect(changes.map(({ path }) => path)).toEqual(files)
  await expectWhole()
})

interface TwoLines {
  readonly session: Session
  /** A fork of the session from before both lines. */
  readonly early: Session
  /** The newest event of the first line, which a restore ended. */
  readonly eventId: string
  /** A fork of the second line. */
  readonly fork: Session
}

/** No record refers to the state after `/common`, from which both lines start. */
async function startTwoLines(): Promise<TwoLines> {
  const session = await engine.sessions.create()
  await session.files.write({ path: '/start', content: 'start' })
  const early = await session.fork()
  await session.files.write({ path: '/common', content: 'common' })
  const common = (await session.events.list()).events.at(-1)!
  await session.files.write({ path: '/first', content: 'first' })
  const { eventId } = (await session.events.list()).events.at(-1)!
  await session.restore({ from: { eventId: common.eventId } })
  await session.files.write({ path: '/second', content: 'second' })
  return { session, early, eventId, fork: await session.fork() }
}

/** The calls that go back to the newest state of the first line. Each resolves to the session that has it then. */
const revisits: [string, (lines: TwoLines) => Promise<Session>][] = [
  [
    'a session is undone to it',
    async ({ session }) => {
      await session.undo({ count: 2 })
      return session
    },
  ],
  [
    'a session is restored to it',
    async ({ session, eventId }) => {
      await session.restore({ from: { eventId } })
      return session
    },
  ],
  ['a fork starts from it', ({ session, eventId }) => session.fork({ from: { eventId } })],
  [
    'a session merges it',
    async ({ session, early, eventId }) => {
      await early.merge({ sessionId: session.id, eventId })
      return early
    },
  ],
]

test.each(revisits)(
  'keeps the history that leads to an unneeded state if %s meanwhile',
  async (_, revisit) => {
    const other = await engine.sessions.create()
    const lines = await startTwoLines()
    const held = storage.hold('scan', ({ gte }) => gte === keys.snapshots(other.id))
    const collecting = engine.collect()
    await held.reached
    // By now, the collection has decided to keep only the newest state of the session, and that of its fork.
    await storage.quiet()
    const target = await revisit(lines)
    held.release()
    expect(await collecting).toMatchObject({ prunedEvents: 0 })
    expect((await target.merge(lines.fork)).changes.map(({ path }) => path)).toEqual(['/second'])
    await expectWhole()
    await engine.collect()
    await lines.fork.files.write({ path: '/third', content: 'third' })
    expect((await target.merge(lines.fork)).changes.map(({ path }) => path)).toEqual(['/third'])
    await expectWhole()
  },
)

test.each(revisits)(
  'lets no call go back to a state if %s while its history is removed',
  async (_, revisit) => {
    const lines = await startTwoLines()
    const removal = storage.hold('commit', ({ replaceEvents = [] }) => replaceEvents.length > 0)
    const collecting = engine.collect()
    await removal.reached
    // A later merge of the state could not find the one from which both lines start.
    const revisiting = revisit(lines).catch((error: unknown) => error)
    await storage.quiet()
    removal.release()
    expect(await collecting).toMatchObject({ prunedEvents: 4 })
    expect(await revisiting).toMatchObject({ reason: 'STATE_NOT_KEPT' })
    await expectWhole()
  },
)

test('keeps the common ancestor of a session that is undone while a fork merges it', async () => {
  const session = await engine.sessions.create({ files: { '/both': 'start' } })
  const fork = await session.fork()
  await session.files.write({ path: '/both', content: 'changed' })
  await session.files.write({ path: '/undone', content: 'undone' })
  await fork.files.write({ path: '/both', content: 'changed too' })
  let reach!: () => void
  let release!: () => void
  const reached = new Promise<void>((resolve) => (reach = resolve))
  const released = new Promise<void>((resolve) => (release = resolve))
  const merge = async (): Promise<string> => {
    reach()
    await released
    return 'merged'
  }
  const merging = fork.merge(session, { mergers: [{ glob: '/both', merge }] })
  await reached
  await session.undo()
  await session.files.write({ path: '/later', content: 'later' })
  await engine.collect()
  release()
  await merging

  await engine.collect()
  const { changes } = await session.merge(fork)
  expect(changes.map(({ path }) => path)).toEqual(['/both', '/undone'])
  await expectWhole()
})

test('a merge waits for a collection that has not yet removed a deleted fork of a state that is gone', async () => {
  const content = 'x'.repeat(100)
  const start = await engine.sessions.create({ files: { '/start': content } })
  const [one, another, session] = [await start.fork(), await start.fork(), await start.fork()]
  await session.files.write({ path: '/first', content })
  const fork = await session.fork()
  await fork.files.write({ path: '/of-fork', content })
  await one.merge(fork)
  await session.files.write({ path: '/second', content })
  await another.merge(session)
  await session.files.write({ path: '/third', content })
  await fork.delete()
  const held = storage.hold('commit', ({ deleteEvents }) => deleteEvents?.includes(fork.id) === true)
  const collecting = engine.collect()
  await held.reached
  const merging = one.merge(another)
  let isOver = false
  const outcome = merging
    .then(({ changes }) => changes.map(({ path }) => path), String)
    .finally(() => (isOver = true))
  await storage.quiet()
  expect(isOver).toBe(false)
  held.release()
  await collecting
  expect(await outcome).toEqual(['/second'])
  await expectWhole()
})
