import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  ImportJobState,
  memoryStorage,
  openEngine,
  PosixLockKind,
  type Engine,
  type Session,
} from '../../src/index.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { isLong, seed } from '../support/seed.js'
import { FailingStorage } from '../support/failing-storage.js'

const opened: Engine[] = []

afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close().catch(() => undefined)
})

/** Simulated time: the pauses between recovery attempts take no real time. */
let skippedMs = 0
const environment = { ...systemEnvironment, monotonicMs: () => systemEnvironment.monotonicMs() + skippedMs }

async function open(storage: FailingStorage): Promise<Engine> {
  const engine = await openEngine({ storage, environment })
  opened.push(engine)
  return engine
}

function failing(): FailingStorage {
  return new FailingStorage(memoryStorage({ durable: true }), { recovers: true })
}

async function read(session: Session, path: string): Promise<string | undefined> {
  return session.fs.promises.readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return undefined
  })
}

describe('after a failed commit', () => {
  test('the same engine continues with all acknowledged changes and without the failed one', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/a': '0' } })
    const other = await session.fork()
    await session.files.write({ path: '/a', content: '1' })
    storage.after = { commits: 0, failure: 'fail' }
    await expect(session.files.write({ path: '/a', content: '2' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
    })
    await session.files.write({ path: '/b', content: '3' })
    expect([await read(session, '/a'), await read(session, '/b')]).toEqual(['1', '3'])
    await other.files.write({ path: '/a', content: 'other' })
    expect(await read(other, '/a')).toBe('other')
    expect(storage.recoveries).toBe(1)
    expect((await session.events.verify()).eventCount).toBe(3)
  })

  test('a commit with an unknown outcome may be stored', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create()
    storage.after = { commits: 0, failure: 'lose' }
    await expect(session.files.write({ path: '/a', content: '1' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
      details: { outcome: 'unknown' },
    })
    expect(await read(session, '/a')).toBe('1')
    await session.files.write({ path: '/b', content: '2' })
    expect((await session.events.verify()).eventCount).toBe(3)
  })

  test('a snapshot started before the failure is not stored after the recovery', async () => {
    const storage = failing()
    const engine = await openEngine({ storage, environment, memoryBudgetBytes: 2 ** 20 })
    opened.push(engine)
    const session = await engine.sessions.create()
    let reportFailure: (() => void) | undefined
    const reported = new Promise<void>((resolve) => (reportFailure = resolve))
    storage.after = { commits: 1, failure: 'fail', reported }
    // Large enough that its snapshot starts at once, takes several turns, and is awaited.
    const path = (i: number): string => `/${i}/b/c/d/e/f/g/h/i/j/k/l/m`
    const large = session.files.batch(
      Array.from({ length: 1000 }, (_, i) => ({ write: { path: path(i), content: `${i}` } })),
    )
    const small = session.files.write({ path: '/a', content: 'not stored' })
    for (let i = 0; i < 2; i++) await nextTurn()
    reportFailure!()
    await expect(small).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect(await read(session, '/a')).toBeUndefined()
    expect(await read(session, path(999))).toBe('999')
    await large
    expect((await engine.check({ readData: true })).findings).toEqual([])
    expect(await read(session, '/a')).toBeUndefined()
  })

  test('a lost change is neither committed nor checked out', async () => {
    const storage = failing()
    const directory = realpathSync(mkdtempSync(join(tmpdir(), 'recovery-')))
    const engine = await openEngine({ storage, environment, hostPaths: { roots: [directory] } })
    opened.push(engine)
    const names = Array.from({ length: 400 }, (_, i) => `${1000 + i}`)
    const session = await engine.sessions.create({
      files: Object.fromEntries(names.map((name) => [`/${name}`, name])),
    })
    const uses = [() => session.commit({ message: 'all' }), () => session.checkout(join(directory, 'work'))]
    for (const use of uses) {
      let reportFailure: (() => void) | undefined
      const reported = new Promise<void>((resolve) => (reportFailure = resolve))
      storage.after = { commits: 0, failure: 'fail', reported }
      const results = Promise.allSettled([session.files.write({ path: '/b', content: 'not stored' }), use()])
      reportFailure!()
      // The next caller makes the store recover, and pending calls continue with it.
      for (let i = 0; i < 4; i++) await nextTurn()
      await session.get()
      const failed = { status: 'rejected', reason: expect.objectContaining({ reason: 'STORE_FAILED' }) }
      expect(await results).toMatchObject([failed, failed])
      expect(await session.fs.promises.readdir('/')).toEqual(names)
      expect((await engine.check({ readData: true })).findings).toEqual([])
    }
    expect(existsSync(join(directory, 'work', 'b'))).toBe(false)
    rmSync(directory, { recursive: true })
  })

  test('a session that is being read during the recovery is reloaded', async () => {
    const data = memoryStorage({ durable: true })
    type Commit = Parameters<Awaited<ReturnType<typeof data.open>>['commit']>[0]
    let next: 'commit' | 'fail' = 'commit'
    let isFull = true
    /** A commit that failed, but is found to be stored by the recovery. */
    let late: Commit | undefined
    let read: (() => void) | undefined
    let goOn!: () => void
    const released = new Promise<void>((resolve) => (goOn = resolve))
    const engine = await openEngine({
      environment,
      storage: {
        async open() {
          const store = await data.open()
          const commit = store.commit.bind(store)
          const events = store.events.bind(store)
          return Object.assign(store, {
            commit(changes: Commit) {
              if (next === 'commit') return commit(changes)
              late = changes
              return Promise.reject(new Error('the commit failed'))
            },
            async recover() {
              if (isFull) throw new EngineError('STORE_FULL', 'the disk is full')
              next = 'commit'
              await commit(late!)
            },
            async *events(...range: Parameters<typeof events>) {
              yield* events(...range)
              if (read === undefined) return
              read()
              read = undefined
              await released
            },
          })
        },
      },
    })
    opened.push(engine)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    next = 'fail'
    await expect(session.files.write({ path: '/a', content: '2' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
    })
    const isRead = new Promise<void>((resolve) => (read = resolve))
    const text = session.fs.promises.readFile('/a', 'utf8')
    await isRead
    isFull = false
    skippedMs += 10_000
    await engine.sessions.create()
    goOn()
    expect(await text).toBe('2')
    await session.files.write({ path: '/b', content: '3' })
    expect((await session.events.verify()).eventCount).toBe(3)
  })

  test.each<[string, (engine: Engine) => Promise<unknown>, unknown]>([
    ['a collection', (engine) => engine.collect(), { deletedSessions: 1 }],
    ['a rotation of secrets', (engine) => engine.rotateSecrets(), { rewrapped: 1 }],
  ])('%s can be the first call', async (_, call, result) => {
    const old = { id: 'old', key: new Uint8Array(32).fill(1) }
    const masterKey = { id: 'new', key: new Uint8Array(32).fill(2) }
    const storage = failing()
    const first = await openEngine({ storage, secrets: { masterKey: old } })
    opened.push(first)
    await (await first.sessions.create()).secrets.put({ secretName: 'a', secretValue: 'b' })
    await first.close()
    const engine = await openEngine({ storage, secrets: { masterKey, previousKeys: [old] } })
    opened.push(engine)
    const session = await engine.sessions.create()
    await (await engine.sessions.create()).delete()
    storage.after = { commits: 0, failure: 'fail' }
    await expect(session.files.write({ path: '/a', content: '' })).rejects.toThrow('failed')
    expect(await call(engine)).toMatchObject(result as object)
    await session.files.write({ path: '/a', content: '' })
    expect(storage.recoveries).toBe(1)
  })

  test('concurrent operations share one recovery', async () => {
    const storage = failing()
    const engine = await open(storage)
    const sessions = await Promise.all(Array.from({ length: 20 }, () => engine.sessions.create()))
    storage.after = { commits: 3, failure: 'fail' }
    await Promise.allSettled(sessions.map((session) => session.files.write({ path: '/a', content: '1' })))
    await Promise.all(sessions.map((session) => session.files.write({ path: '/b', content: '2' })))
    expect(storage.recoveries).toBe(1)
    for (const session of sessions) expect(await read(session, '/b')).toBe('2')
  })

  test('a new session does not exist, and a blank one can be created again', async () => {
    const storage = failing()
    const engine = await open(storage)
    storage.after = { commits: 0, failure: 'fail' }
    await expect(engine.sessions.create()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect((await engine.sessions.list()).sessions).toEqual([])
    await engine.sessions.create()
    expect((await engine.sessions.list()).sessions).toHaveLength(1)
  })

  test('a deletion that was not stored leaves the session unchanged', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    storage.after = { commits: 0, failure: 'fail' }
    await expect(session.delete()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect(await read(session, '/a')).toBe('1')
    await session.delete()
    await expect(session.get()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  })

  test('synchronous calls find the session again', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    session.fs.writeFileSync('/a', '2')
    await session.flush()
    storage.after = { commits: 0, failure: 'fail' }
    session.fs.writeFileSync('/a', '3')
    await expect(session.flush()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect(() => session.fs.readFileSync('/a', 'utf8')).toThrow(expect.objectContaining({ code: 'EAGAIN' }))
    await session.flush()
    expect(session.fs.readFileSync('/a', 'utf8')).toBe('2')
  })
})

describe('while the disk is full', () => {
  test('writes fail with a known outcome, reads continue, and everything works once there is space', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    const other = await engine.sessions.create({ files: { '/a': 'other' } })
    storage.full = true
    await expect(session.files.write({ path: '/a', content: '2' })).rejects.toMatchObject({
      reason: 'STORE_FULL',
    })
    for (let round = 0; round < 5; round++) {
      skippedMs += 10_000
      for (const write of [
        () => session.files.write({ path: '/a', content: '3' }),
        () => other.files.write({ path: '/a', content: '3' }),
        () => engine.sessions.create(),
        () => session.fork(),
        () => session.checkpoint({ checkpointLabel: `round ${round}` }),
        () => session.delete(),
        () => engine.sources.create({ displayName: 's', uploadedSnapshot: {} }),
        () => session.cache.put({ key: 'k', value: 'v' }),
        () => session.bus.publish({ topic: 't', payload: 'p' }),
      ])
        await expect(write()).rejects.toMatchObject({
          reason: 'STORE_FULL',
          details: { outcome: 'not-applied' },
        })
      expect([await read(session, '/a'), await read(other, '/a')]).toEqual(['1', 'other'])
      expect((await engine.sessions.list()).sessions).toHaveLength(2)
    }
    storage.full = false
    skippedMs += 10_000
    await session.files.write({ path: '/a', content: '4' })
    expect(await read(session, '/a')).toBe('4')
    expect(await read(other, '/a')).toBe('other')
  })

  test('the engine does not retry the store constantly', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create()
    storage.full = true
    for (let i = 0; i < 200; i++)
      await session.files.write({ path: '/a', content: '1' }).catch(() => undefined)
    expect(storage.recoveries).toBeLessThan(20)
  })

  test('closing works, and reopening finds the acknowledged data', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    storage.full = true
    await session.files.write({ path: '/a', content: '2' }).catch(() => undefined)
    await engine.close()
    storage.full = false
    const again = await (await open(storage)).sessions.open(session.id)
    expect(await read(again, '/a')).toBe('1')
  })
})

describe('the in-memory state of services is corrected', () => {
  test('cache, messages, annotations, secrets, checkpoints', async () => {
    const storage = failing()
    const engine = await openEngine({
      storage,
      environment,
      secrets: { masterKey: { id: 'm', key: Buffer.alloc(32, 1) } },
    })
    opened.push(engine)
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    const expectedContentHash = await session.files.contentHash('/a')
    const writes: (() => Promise<unknown>)[] = [
      () => session.cache.put({ key: 'k', value: 'v' }),
      () => session.bus.publish({ topic: 't', payload: 'p' }),
      () => session.annotations.add({ filePath: '/a', comment: 'c', expectedContentHash }),
      () => session.secrets.put({ secretName: 's', secretValue: 'v' }),
      () => session.checkpoint({ checkpointLabel: 'l' }),
      () => session.fileLocks.lock({ path: '/a', timeoutSeconds: 60 }),
      () => session.approvals.request({ reason: 'R' }),
    ]
    for (const write of writes) {
      storage.after = { commits: 0, failure: 'fail' }
      await expect(write()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    }
    expect((await session.cache.stats()).entryCount).toBe(0)
    expect((await session.annotations.list()).annotations).toEqual([])
    expect((await session.secrets.list()).secrets).toEqual([])
    expect((await session.listCheckpoints()).checkpoints).toEqual([])
    expect((await session.fileLocks.list()).locks).toEqual([])
    expect((await session.approvals.list()).approvals).toEqual([])
    expect((await session.get()).status).toBe('SESSION_STATUS_ACTIVE')
    for (const write of writes) await write()
    expect((await session.cache.stats()).entryCount).toBe(1)
    expect((await session.listCheckpoints()).checkpoints).toHaveLength(1)
  })

  test('locks and open files stay, and followers are notified', async () => {
    const storage = failing()
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/a': '1', '/b': '2' } })
    const [one, two] = ['1', '2'].map((ownerId) => ({ ownerId }))
    const lock = { path: '/a', kind: PosixLockKind.EXCLUSIVE }
    await session.posixLocks.set({ ...lock, owner: one! })
    const handle = await session.fs.promises.open('/b', 'r+')
    const following = (async () => {
      for await (const event of session.events.follow()) if (event.eventType === undefined) return
    })()
    following.catch(() => undefined)
    storage.after = { commits: 0, failure: 'fail' }
    await session.files.write({ path: '/a', content: 'x' }).catch(() => undefined)
    await expect(following).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect(await handle.readFile('utf8')).toBe('2')
    await handle.write('3', 0)
    expect(await read(session, '/b')).toBe('3')
    await handle.close()
    expect((await session.posixLocks.get({ ...lock, owner: two! })).hasConflict).toBe(true)
    await expect(session.posixLocks.set({ ...lock, owner: two! })).rejects.toMatchObject({
      reason: 'LOCK_HELD',
    })
  })

  test('a job whose result could not be stored fails, immediately and permanently', async () => {
    const storage = failing()
    const engine = await open(storage)
    const { sourceId } = await engine.sources.create({ displayName: 's', uploadedSnapshot: {} })
    const job = await engine.sources.startImport(sourceId, {
      uploadedSnapshot: { files: { '/a': '1' } },
    })
    storage.full = true
    await expect(engine.sources.waitForJob(job)).rejects.toMatchObject({ reason: 'IMPORT_FAILED' })
    expect((await engine.sources.getJob(job)).state).toBe(ImportJobState.FAILED)
    storage.full = false
    skippedMs += 10_000
    await engine.sources.list()
    expect((await engine.sources.getJob(job)).state).toBe(ImportJobState.FAILED)
    await engine.close()
    const again = await open(storage)
    const stored = await again.sources.getJob(job)
    expect(stored.state).toBe(ImportJobState.FAILED)
    expect(stored.errorCode).not.toBe('INTERRUPTED')
  })
})

function expectOneOf(values: ReadonlySet<string | undefined>, found: string | undefined): void {
  expect(values).toContain(found)
}

test(`acknowledged changes survive failed commits at any point (FORKSPACE_SEED=${seed})`, async () => {
  const step = fc.record({
    session: fc.nat(2),
    kind: fc.constantFrom('write', 'write', 'write', 'unlink', 'checkpoint', 'restore', 'fork', 'burst'),
    path: fc.constantFrom('/a', '/b', '/d/c'),
    failAfter: fc.option(fc.nat(3), { freq: 4, nil: undefined }),
    lose: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
      const storage = failing()
      const engine = await openEngine({ storage, environment })
      try {
        const sessions = await Promise.all([0, 1, 2].map(() => engine.sessions.create()))
        /** The possible contents by session and path. */
        const may = sessions.map(() => new Map<string, Set<string | undefined>>())
        const possible = (index: number, path: string): Set<string | undefined> =>
          may[index]!.get(path) ?? new Set([undefined])
        let count = 0
        for (const { session: index, kind, path, failAfter, lose } of steps) {
          const session = sessions[index]!
          if (failAfter !== undefined) storage.after = { commits: failAfter, failure: lose ? 'lose' : 'fail' }
          const change = async (value: string | undefined, act: () => Promise<unknown>): Promise<void> => {
            const before = possible(index, path)
            try {
              await act()
              may[index]!.set(path, new Set([value]))
            } catch (error) {
              if ((error as { reason?: string }).reason !== 'STORE_FAILED') return
              may[index]!.set(path, new Set([...before, value]))
            }
          }
          const content = `content ${++count}`
          if (kind === 'write') await change(content, () => session.files.write({ path, content }))
          else if (kind === 'unlink') await change(undefined, () => session.files.unlink({ path }))
          else if (kind === 'checkpoint') await session.checkpoint().catch(() => undefined)
          else if (kind === 'fork') {
            const fork = await session.fork().catch(() => undefined)
            if (fork === undefined) continue
            for (const [one, values] of may[index]!) expectOneOf(values, await read(fork, one))
          } else if (kind === 'burst') {
            const all = await Promise.allSettled(
              [1, 2, 3, 4].map((i) => session.files.write({ path, content: `${content} ${i}` })),
            )
            const values = new Set(possible(index, path))
            for (const [i, { status }] of all.entries()) {
              if (status === 'fulfilled') values.clear()
              values.add(`${content} ${i + 1}`)
            }
            may[index]!.set(path, values)
          }
          for (const [one, values] of may[index]!) {
            const found = await read(session, one)
            expect(values).toContain(found)
            // From here on the content is certain.
            may[index]!.set(one, new Set([found]))
          }
        }
        storage.after = undefined
        const hashes = await Promise.all(sessions.map(async (one) => (await one.manifest()).manifestHash))
        for (const one of sessions) await one.events.verify()
        await engine.close()
        const again = await openEngine({ storage })
        for (const [index, { id }] of sessions.entries())
          expect((await (await again.sessions.open(id)).manifest()).manifestHash).toBe(hashes[index])
        await again.close()
      } finally {
        await engine.close().catch(() => undefined)
      }
    }),
    { seed, numRuns: isLong ? 100 : 40 },
  )
}, 60_000)
