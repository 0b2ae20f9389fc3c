import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  memoryStorage,
  openEngine,
  PosixLockKind,
  type Engine,
  type EngineOptions,
  type Session,
  type Storage,
  type Store,
} from '../../src/index.js'
import { openRepository } from '../../src/engine/contract.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { wrapped } from '../../src/engine/storage/wrapped-store.js'
import { FailingStorage } from '../support/failing-storage.js'
import { lowerBound } from '../support/lower-bound.js'
import { storages } from '../support/storages.js'

const notFound: unknown = expect.objectContaining({ name: 'EngineError', reason: 'SESSION_NOT_FOUND' })
const minute = 60_000

describe.each(storages)('sessions with a time to live on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let environment: FixedEnvironment
  let engine: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'expiry-'))
    storage = makeStorage(directory)
    environment = fixedEnvironment({ stepMs: 0 })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function open(options: EngineOptions = {}): Promise<void> {
    engine = await openEngine({ storage, environment, ...options })
  }

  test('are deleted when unused for that long', async () => {
    await open({ sessionTtlSeconds: 600 })
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    const other = await engine.sessions.create({ ttlSeconds: 3600 })
    const fork = await other.fork()
    environment.advance(9 * minute)
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a')
    environment.advance(9 * minute)
    await session.files.write({ path: '/a', content: 'b' })
    environment.advance(9 * minute)
    expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toEqual([
      session.id,
      other.id,
      fork.id,
    ])
    environment.advance(minute)
    expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toEqual([other.id, fork.id])
    expect(() => session.fs.readFileSync('/a')).toThrow('EIO')
    await expect(session.files.read({ path: '/a' })).rejects.toEqual(notFound)
    await expect(session.files.write({ path: '/a', content: 'c' })).rejects.toEqual(notFound)
    await expect(engine.sessions.open(session.id)).rejects.toEqual(notFound)
    await expect(engine.sessions.get(session.id)).rejects.toEqual(notFound)
    environment.advance(60 * minute)
    for (const { id } of [other, fork]) await expect(engine.sessions.get(id)).rejects.toEqual(notFound)
    expect((await engine.sessions.list({ pageSize: 1 })).sessions).toEqual([])
  })

  test('have no state for others once they are expired', async () => {
    await open({ sessionTtlSeconds: 600 })
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    environment.advance(5 * minute)
    const other = await engine.sessions.create()
    environment.advance(5 * minute)
    const diff = engine.diff({ from: { sessionId: other.id }, to: { sessionId: session.id } })
    await expect(diff.paths()).rejects.toEqual(notFound)
    await expect(engine.sessions.get(session.id)).rejects.toEqual(notFound)
  })

  const range = { start: 0, length: 1 }
  const owner = { ownerId: 'a' }
  const cached = { key: 'k', value: 'v', ttlSeconds: 0 }

  test.each<[name: string, use: (session: Session, lockId: string) => Promise<unknown>]>([
    ['a write to the cache', ({ cache }) => cache.put(cached)],
    ['a swap in the cache', ({ cache }) => cache.compareAndSet({ key: 'k', newValue: 'v', ttlSeconds: 0 })],
    ['a batch of writes to the cache', ({ cache }) => cache.batchSet({ entries: [cached] })],
    ['a deletion in the cache', ({ cache }) => cache.delete({ key: 'k' })],
    [
      'the renewal of a lock',
      ({ fileLocks }, lockId) => fileLocks.renew({ path: '/a', lockId, timeoutSeconds: 600 }),
    ],
    [
      'a POSIX lock',
      ({ posixLocks }) => posixLocks.set({ path: '/a', kind: PosixLockKind.EXCLUSIVE, range, owner }),
    ],
    ['the release of a POSIX lock', ({ posixLocks }) => posixLocks.funlock({ path: '/a', owner })],
    ['a message', ({ bus }) => bus.publish({ topic: 't', payload: 'm' })],
    ['a draft', async (session) => (await session.draft())[Symbol.asyncDispose]()],
    ['a write that changes nothing', ({ fs }) => fs.promises.mkdir('/', { recursive: true })],
    [
      'an edit that changes nothing',
      ({ text }) => text.edit({ path: '/a', edits: [{ oldText: 'a', newText: 'a' }] }),
    ],
    ['an undo of nothing', (session) => session.undo()],
  ])('are kept by %s', async (_use, use) => {
    await open({ sessionTtlSeconds: 60 })
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    const { lockId } = await session.fileLocks.lock({ path: '/a', timeoutSeconds: 600 })
    environment.advance(minute - 1)
    await use(session, lockId)
    environment.advance(minute - 1)
    await engine.collect()
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a')
  })

  describe('are kept while work on them takes longer than it:', () => {
    let session: Session

    beforeEach(async () => {
      await open({
        sessionTtlSeconds: 60,
        maxFileBytes: 2 ** 22,
        hostPaths: { roots: [directory] },
        exec: { directory: join(directory, 'exec'), path: '/usr/bin:/bin' },
      })
      session = await engine.sessions.create({ files: { '/a': 'a' } })
    })

    async function passTtl(): Promise<void> {
      environment.advance(2 * minute)
      expect(await engine.collect()).toMatchObject({ deletedSessions: 0 })
      expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toContain(session.id)
    }

    async function expectFullTtl(): Promise<void> {
      environment.advance(minute - 1)
      await engine.collect()
      expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toEqual([session.id])
      environment.advance(minute)
      await engine.collect()
      expect((await engine.sessions.list()).sessions).toEqual([])
    }

    test('a command', async () => {
      const command = 'touch started && while [ ! -e go ]; do sleep 0.02; done && echo b > a'
      const run = session.exec({ command: 'sh', args: ['-c', command] })
      const started = async (): Promise<string | undefined> =>
        (await readdir(directory, { recursive: true })).find((name) => name.endsWith('started'))
      await expect.poll(started, { timeout: 10_000 }).toBeDefined()
      await passTtl()
      await writeFile(join(directory, String(await started()), '../go'), '')
      expect(await run).toMatchObject({ exitCode: 0, changes: { modified: ['/a'] } })
      await expectFullTtl()
    })

    test('a write whose content arrives slowly', async () => {
      async function* content(): AsyncIterable<Uint8Array> {
        for (const piece of ['b', 'c']) {
          await passTtl()
          yield Buffer.from(piece)
        }
      }
      await session.files.write({ path: '/a', content: content() })
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('bc')
      await expectFullTtl()
    })

    test('a write to a draft whose content arrives slowly', async () => {
      async function* content(): AsyncIterable<Uint8Array> {
        await passTtl()
        yield Buffer.from('b')
      }
      const draft = await session.draft()
      await draft.files.write({ path: '/a', content: content() })
      await draft.commit()
      await draft[Symbol.asyncDispose]()
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('b')
      await expectFullTtl()
    })

    test.each(['a merge', 'the resolution of conflicts'])('%s', async (work) => {
      const other = await session.fork()
      for (const [changed, content] of [
        [session, 'b'],
        [other, 'c'],
      ] as const) {
        for (let n = 0; n < 100; n++) changed.fs.writeFileSync(`/${n}`, content)
        await changed.flush()
      }
      if (work !== 'a merge') await session.merge(other)
      environment.advance(minute - 1)
      await other.fs.promises.readFile('/a')
      const done = work === 'a merge' ? session.merge(other) : session.conflicts.resolveAll({ use: 'theirs' })
      const working = Promise.allSettled([done])
      environment.advance(minute - 1)
      expect(await engine.collect()).toMatchObject({ deletedSessions: 0 })
      expect(await working).toMatchObject([{ status: 'fulfilled' }])
      await other.delete()
      await expectFullTtl()
    })

    test('a push', async () => {
      const repository = await openRepository(engine, session.id)
      const { commitId } = await repository.checkPush()
      const { signal } = new AbortController()
      await repository.push({ commitId: '1'.repeat(40), expected: commitId, read: passTtl, signal })
      expect((await repository.head()).commitId).toBe('1'.repeat(40))
      await expectFullTtl()
    })

    test.each<[name: string, work: (signal: AbortSignal) => Promise<unknown>]>([
      ['an unknown command', () => session.exec({ command: 'no-such-command' })],
      ['a command that is aborted', (signal) => session.exec({ command: 'sleep', args: ['60'], signal })],
      ['a checkout to a directory that is not allowed', () => session.checkout('/proc/out')],
      ['a commit that is aborted', abortedCommit],
      ['a write whose content fails', () => session.files.write({ path: '/a', content: failing() })],
      ['a write whose content is too large', () => session.files.write({ path: '/a', content: large() })],
      ['a write to a draft whose content fails', writeToDraft],
      ['a merge of an unknown session', () => session.merge({ sessionId: 'unknown' })],
      ['a push that fails', push],
    ])('and not after it fails: %s', async (_name, work) => {
      const signal = AbortSignal.timeout(500)
      expect(await Promise.allSettled([work(signal)])).toMatchObject([{ status: 'rejected' }])
      environment.advance(minute)
      await engine.collect()
      expect((await engine.sessions.list()).sessions).toEqual([])
    })

    async function* failing(): AsyncIterable<Uint8Array> {
      yield Buffer.from('b')
      await passTtl()
      throw new Error('the source failed')
    }

    async function* large(): AsyncIterable<Uint8Array> {
      for (;;) yield new Uint8Array(2 ** 20)
    }

    async function writeToDraft(): Promise<void> {
      await using draft = await session.draft()
      await draft.files.write({ path: '/a', content: failing() })
    }

    function abortedCommit(): Promise<unknown> {
      const abort = new AbortController()
      const commit = session.commit({ message: 'one', signal: abort.signal })
      abort.abort()
      return commit
    }

    async function push(signal: AbortSignal): Promise<void> {
      const repository = await openRepository(engine, session.id)
      const { commitId } = await repository.checkPush()
      const read = (): Promise<void> => Promise.reject(new Error('the client went away'))
      await repository.push({ commitId: '1'.repeat(40), expected: commitId, read, signal })
    }

    test('and not when they are deleted meanwhile', async () => {
      async function* content(): AsyncIterable<Uint8Array> {
        await session.delete()
        yield Buffer.from('b')
      }
      await expect(session.files.write({ path: '/a', content: content() })).rejects.toEqual(notFound)
      expect((await engine.sessions.list()).sessions).toEqual([])
    })

    test('and not when the engine is closed meanwhile', async () => {
      let release = (): void => undefined
      const closed = new Promise<void>((resolve) => (release = resolve))
      async function* content(): AsyncIterable<Uint8Array> {
        yield Buffer.from('b')
        await closed
        yield Buffer.from('c')
      }
      const writing = session.files.write({ path: '/a', content: content() })
      const outcome = Promise.allSettled([writing])
      await engine.close()
      release()
      expect(await outcome).toMatchObject([{ status: 'rejected', reason: { reason: 'STORE_CLOSED' } }])
    })

    test('a checkout', async () => {
      environment.advance(minute - 1)
      const checkout = await session.checkout(join(directory, 'out'))
      environment.advance(minute - 1)
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      await expectFullTtl()
    })

    test('changes of a draft', async () => {
      const draft = await session.draft()
      for (const content of ['b', 'c', 'd']) {
        environment.advance(minute - 1)
        await draft.files.write({ path: '/a', content })
        environment.advance(minute - 1)
        draft.fs.writeFileSync('/b', content)
        await engine.collect()
      }
      await draft.commit()
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('d')
      await draft[Symbol.asyncDispose]()
      await expectFullTtl()
    })
  })

  test('and an open draft are deleted without use of either', async () => {
    await open({ sessionTtlSeconds: 60 })
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    const draft = await session.draft()
    environment.advance(minute)
    await draft.files.write({ path: '/a', content: 'b' })
    await expect(draft.commit()).rejects.toEqual(notFound)
    await draft[Symbol.asyncDispose]()
  })

  test('are also deleted by a collection, before or after reopening', async () => {
    if (!lasting) return open()
    await open()
    const session = await engine.sessions.create({ ttlSeconds: 60, files: { '/a': 'a'.repeat(10_000) } })
    const kept = await engine.sessions.create({ files: { '/a': 'b'.repeat(5000) } })
    await session.files.write({ path: '/b', content: 'b' })
    environment.advance(50_000)
    await engine.close()
    await open()
    // The new engine does not trust its clock until it has been open for a while.
    environment.advance(59_999)
    expect(await engine.collect()).toMatchObject({ deletedSessions: 0 })
    environment.advance(1)
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    expect((await engine.usage.metrics()).storedBytes).toBe(5000)
    await expect(engine.sessions.open(session.id)).rejects.toEqual(notFound)
    await engine.sessions.open(kept.id)
  })

  test("use their own time to live instead of the engine's default in a collection", async () => {
    await open({ sessionTtlSeconds: 60 })
    await engine.sessions.create()
    const longer = await engine.sessions.create({ ttlSeconds: 3600 })
    environment.advance(minute)
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toEqual([longer.id])
  })

  test('are skipped in pages of other sessions', async () => {
    await open()
    const ids: string[] = []
    for (let i = 0; i < 10; i++) {
      const { id } = await engine.sessions.create(i % 3 === 0 ? {} : { ttlSeconds: 60 })
      if (i % 3 === 0) ids.push(id)
    }
    environment.advance(minute)
    const listed: string[] = []
    for (let pageToken = ''; ;) {
      const page = await engine.sessions.list({ pageSize: 2, pageToken })
      listed.push(...page.sessions.map(({ id }) => id))
      if (page.nextPageToken === '') break
      pageToken = page.nextPageToken
    }
    expect(listed).toEqual(ids)
  })

  test('reject an invalid time to live', async () => {
    await open()
    for (const ttlSeconds of [0, -1, 1.5, '60'])
      await expect(engine.sessions.create({ ttlSeconds: ttlSeconds as number })).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    await expect(openEngine({ sessionTtlSeconds: 0 })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })
})

describe('sessions that are dropped from memory after a failed write', () => {
  const ttlSeconds = 60
  const environment = fixedEnvironment({ stepMs: 0 })
  let storage: FailingStorage
  let engine: Engine
  let session: Session
  let other: Session
  let isUnreadable: boolean

  beforeEach(async () => {
    isUnreadable = false
    const memory = memoryStorage({ durable: true })
    const open = async (): Promise<Store> => {
      const store = await memory.open()
      const readable = (key: string): string => {
        if (isUnreadable) throw new Error('the disk cannot be read')
        return key
      }
      return wrapped(store, {
        get: async (key) => store.get(readable(key)),
        getSync: (key) => store.getSync?.(readable(key)),
      })
    }
    storage = new FailingStorage({ open }, { recovers: true })
    engine = await openEngine({ storage, environment })
    session = await engine.sessions.create({ ttlSeconds, files: { '/a': 'a' } })
    other = await engine.sessions.create()
  })

  afterEach(() => engine.close())

  async function failWrite(): Promise<void> {
    storage.after = { commits: 0, failure: 'fail' }
    await expect(other.files.write({ path: '/b', content: 'b' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
    })
  }

  const read = (): Promise<string> => session.fs.promises.readFile('/a', 'utf8')

  const ids = async (): Promise<string[]> => (await engine.sessions.list()).sessions.map(({ id }) => id)

  test('keep the time of their last read', async () => {
    environment.advance(minute - 1)
    await read()
    await failWrite()
    environment.advance(minute - 1)
    expect(await ids()).toEqual([session.id, other.id])
    await engine.collect()
    expect(await ids()).toEqual([session.id, other.id])
    environment.advance(1)
    expect(await ids()).toEqual([other.id])
    await expect(read()).rejects.toMatchObject({ cause: notFound })
  })

  test('are kept by the use of a draft', async () => {
    const draft = await session.draft()
    for (let i = 0; i < 4; i++) {
      await failWrite()
      environment.advance(minute - 1)
      expect(await draft.fs.promises.readFile('/a', 'utf8')).toBe('a')
      await engine.collect()
    }
    expect(await ids()).toContain(session.id)
    await draft[Symbol.asyncDispose]()
    environment.advance(minute)
    expect(await ids()).toEqual([other.id])
  })

  test('are kept by long work after which they cannot be read', async () => {
    async function* content(): AsyncIterable<Uint8Array> {
      yield Buffer.from('b')
      await failWrite()
      environment.advance(2 * minute)
      isUnreadable = true
    }
    await expect(session.files.write({ path: '/a', content: content() })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
    })
    isUnreadable = false
    environment.advance(minute - 1)
    expect(await engine.collect()).toMatchObject({ deletedSessions: 0 })
    expect(await read()).toBe('a')
    environment.advance(minute)
    expect(await ids()).toEqual([other.id])
  })

  test('are kept by long work during which their last use was forgotten', async () => {
    lowerBound(limits, 'lastUses', 2)
    async function* content(): AsyncIterable<Uint8Array> {
      yield Buffer.from('b')
      await failWrite()
      for (let n = 0; n < 3; n++) await engine.sessions.create({ ttlSeconds })
      environment.advance(20 * minute)
    }
    await session.files.write({ path: '/a', content: content() })
    environment.advance(minute - 1)
    expect(await read()).toBe('b')
  })

  test('keep the times of reads for as long as the disk is full', async () => {
    await failWrite()
    storage.full = true
    for (let i = 0; i < 10; i++) {
      environment.advance(minute / 2)
      expect(await read()).toBe('a')
    }
    storage.full = false
    environment.advance(minute - 1)
    await other.files.write({ path: '/b', content: 'b' })
    expect(await ids()).toEqual([session.id, other.id])
    await engine.close()
    engine = await openEngine({ storage, environment })
    session = await engine.sessions.open(session.id)
    environment.advance(minute - 1)
    expect(await read()).toBe('a')
  })
})
