import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { keys, prefixEnd } from '../../src/engine/ports.js'
import { limits, openEngine, type Engine, type Session, type Storage, type Store } from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { isForMany, storages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const unknownId = '0'.repeat(36)

describe.each(storages)('file locks on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let store: Store
  let environment: FixedEnvironment
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'file-locks-'))
    const made = makeStorage(directory)
    storage = { open: async () => (store = await made.open()) }
    environment = fixedEnvironment({ stepMs: 0 })
    engine = await openEngine({ storage, environment })
    session = await engine.sessions.create({ files: { '/a': '1' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  /** Reopens the engine after a time. On storage that is not durable, only the time passes. */
  async function reopen(awayMs = 0): Promise<void> {
    if (lasting) await engine.close()
    environment.advance(awayMs)
    if (!lasting) return
    engine = await openEngine({ storage, environment })
    session = await engine.sessions.open(session.id)
  }

  const lock = (path = '/a', timeoutSeconds = 60): Promise<{ lockId: string }> =>
    session.fileLocks.lock({ path, timeoutSeconds })

  const paths = async (pathPrefix?: string): Promise<string[]> => {
    const { locks } = await session.fileLocks.list(pathPrefix === undefined ? {} : { pathPrefix })
    return locks.map(({ path }) => path)
  }

  const remaining = async (path: string): Promise<number | undefined> =>
    (await session.fileLocks.list({ pathPrefix: path })).locks[0]?.remainingTtlSeconds

  /** The authors and types of the stored events. */
  async function events(): Promise<unknown[]> {
    const found: unknown[] = []
    for await (const page of store.events(session.id, { from: 2, to: 1e9 })) {
      for (const { body } of page) found.push([body[1], body[2]])
    }
    return found
  }

  const records = async (): Promise<number> =>
    (await store.scan({ gte: `l${session.id}`, lt: `l${session.id}~`, limit: 100 })).length

  test('are held until they are released', async () => {
    const { lockId } = await lock()
    await expect(lock()).rejects.toEqual(refused('LOCK_HELD'))
    const shown = { lockId, path: '/a', ownerId: 'local', remainingTtlSeconds: 60 }
    expect(await session.fileLocks.list()).toEqual({ locks: [shown] })
    await session.files.write({ path: '/a', content: 'locks do not keep from writing' })
    await expect(session.fileLocks.unlock({ path: '/a', lockId: unknownId })).rejects.toEqual(
      refused('LOCK_NOT_FOUND'),
    )
    await expect(session.fileLocks.unlock({ path: '/b', lockId })).rejects.toEqual(refused('LOCK_NOT_FOUND'))
    await session.fileLocks.unlock({ path: '/a', lockId })
    await expect(session.fileLocks.unlock({ path: '/a', lockId })).rejects.toEqual(refused('LOCK_NOT_FOUND'))
    const again = await lock()
    expect(again.lockId).not.toBe(lockId)
    const reason = 'the holder is gone'
    expect(await session.fileLocks.forceUnlock({ path: '/a', reason })).toEqual({
      lockId: again.lockId,
      ownerId: 'local',
    })
    expect(await paths()).toEqual([])
    expect(await records()).toBe(0)
    expect(await events()).toEqual([
      ['v1.CollaborationService.LockFile', { path: '/a', lockId }],
      [expect.any(String), expect.anything()],
      ['v1.CollaborationService.UnlockFile', { path: '/a', lockId }],
      ['v1.CollaborationService.LockFile', { path: '/a', lockId: again.lockId }],
      ['v1.CollaborationService.ForceUnlockFile', { path: '/a', lockId: again.lockId, reason }],
    ])
  })

  test('are granted to exactly one of many concurrent callers', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => lock('/new')))
    expect(outcomes.map(({ status }) => status).filter((status) => status === 'fulfilled')).toHaveLength(1)
  })

  test('expire after their timeout', async () => {
    const { lockId } = await lock('/a', 10)
    environment.advance(9001)
    expect(await session.fileLocks.list()).toMatchObject({ locks: [{ remainingTtlSeconds: 1 }] })
    await expect(lock()).rejects.toEqual(refused('LOCK_HELD'))
    environment.advance(999)
    expect(await paths()).toEqual([])
    const renewal = { path: '/a', lockId, timeoutSeconds: 10 }
    await expect(session.fileLocks.renew(renewal)).rejects.toEqual(refused('LOCK_NOT_FOUND'))
    await expect(session.fileLocks.unlock({ path: '/a', lockId })).rejects.toEqual(refused('LOCK_NOT_FOUND'))
    await expect(session.fileLocks.forceUnlock({ path: '/a' })).rejects.toEqual(refused('LOCK_NOT_FOUND'))
    await lock('/b', 10)
    // The next lock deletes the record of an expired one.
    expect(await records()).toBe(lasting ? 1 : 0)
    await lock('/a', 10)
    expect(await paths()).toEqual(['/a', '/b'])
    environment.advance(10_000)
    await lock()
    expect(await paths()).toEqual(['/a'])
    expect(await records()).toBe(lasting ? 1 : 0)
  })

  test.runIf(lasting).each([false, true])(
    'are removed from the store after they expire when another lock is taken; reopened: %s',
    async (isReopened) => {
      const stored = async (): Promise<string[]> => {
        const gte = keys.fileLocks(session.id)
        const found = await store.scan({ gte, lt: prefixEnd(gte), limit: 10 })
        return found.map(([key]) => key.slice(gte.length))
      }
      for (const path of ['/a', '/b', '/c', '/d']) await lock(path, path < '/c' ? 10 : 20)
      const shortest = await lock('/e', 100)
      await session.fileLocks.renew({ path: '/e', ...shortest, timeoutSeconds: 5 })
      for (const [afterMs, path, expected] of [
        [5000, '/f', ['/a', '/b', '/c', '/d', '/f']],
        [5000, '/g', ['/c', '/d', '/f', '/g']],
        [10_000, '/h', ['/f', '/g', '/h']],
      ] as const) {
        if (isReopened) await reopen()
        environment.advance(afterMs)
        await lock(path)
        expect(await stored()).toEqual(expected)
      }
    },
  )

  test('stay those of their owner when another principal renews them', async () => {
    const { lockId } = await lock('/a', 10)
    const other = await engine.as({ tenant: 'local', principal: 'other' }).sessions.open(session.id)
    await other.fileLocks.renew({ path: '/a', lockId, timeoutSeconds: 60 })
    const held = [{ path: '/a', lockId, ownerId: 'local', remainingTtlSeconds: 60 }]
    expect((await session.fileLocks.list()).locks).toEqual(held)
    await reopen()
    expect((await session.fileLocks.list()).locks).toEqual(held)
    expect(await session.fileLocks.forceUnlock({ path: '/a' })).toEqual({ lockId, ownerId: 'local' })
  })

  test.runIf(isForMany(name))('do not count toward the limit after they expire', async () => {
    const many = Array.from({ length: limits.fileLocks }, (_, at) => lock(`/${at}`, at === 0 ? 10 : 60))
    await Promise.all(many)
    await expect(lock('/more')).rejects.toEqual(refused('QUOTA'))
    environment.advance(10_000)
    await lock('/more')
    await expect(lock('/0')).rejects.toEqual(refused('QUOTA'))
    expect(await paths()).toHaveLength(limits.fileLocks)
  })

  test('can be renewed, also with a shorter timeout', async () => {
    const { lockId } = await lock('/a', 10)
    environment.advance(5000)
    const renew = (timeoutSeconds: number): ReturnType<Session['fileLocks']['renew']> =>
      session.fileLocks.renew({ path: '/a', lockId, timeoutSeconds })
    expect(await renew(100)).toEqual({ lockId, remainingTtlSeconds: 100 })
    await reopen(20_000)
    expect(await session.fileLocks.list()).toMatchObject({ locks: [{ lockId, remainingTtlSeconds: 80 }] })
    expect(await renew(3)).toEqual({ lockId, remainingTtlSeconds: 3 })
    expect(await renew(10 ** 9)).toEqual({ lockId, remainingTtlSeconds: 86_400 })
    await renew(3)
    await reopen(3000)
    expect(await paths()).toEqual([])
    await expect(renew(3)).rejects.toEqual(refused('LOCK_NOT_FOUND'))
    expect((await events()).map((event) => (event as string[])[0])).toEqual([
      'v1.CollaborationService.LockFile',
    ])
  })

  test('survive a reopening, but not beyond their timeout', async () => {
    const kept = await lock('/kept', 100)
    const released = await lock('/released', 100)
    await lock('/over', 10)
    await session.fileLocks.unlock({ path: '/released', ...released })
    await reopen(10_000)
    expect(await session.fileLocks.list()).toEqual({
      locks: [{ path: '/kept', ...kept, ownerId: 'local', remainingTtlSeconds: 90 }],
    })
    // Setting the wall clock back extends no lock.
    await lock('/other', 1)
    await reopen(-1_000_000)
    expect(await remaining('/kept')).toBe(lasting ? 100 : 90)
    await expect(lock('/kept')).rejects.toEqual(refused('LOCK_HELD'))
    await session.fileLocks.unlock({ path: '/kept', ...kept })
    await reopen()
    await lock('/kept')
  })

  test('that expired are replaced by a new one on the same path, and removed on others', async () => {
    await lock('/a', 10)
    await lock('/b', 10)
    await lock('/c', 60)
    environment.advance(10_000)
    await lock('/a', 60)
    await reopen()
    expect(await paths()).toEqual(['/a', '/c'])
    expect(await records()).toBe(lasting ? 2 : 0)
  })

  test.runIf(lasting)('are all found after a reopening, however many reads they take', async () => {
    lowerBound(limits, 'recordsPerScan', 2)
    for (let count = 1; count <= 5; count++) {
      await lock(`/${count}`)
      await reopen()
      expect(await paths()).toHaveLength(count)
    }
  })

  test('are listed by a literal prefix, in path order', async () => {
    for (const path of ['/src!', '/srcfoo', '/src', '/src/b', '/src/a/c', '/\u{1f600}', '/\uffff', '/'])
      await lock(path)
    expect(await paths()).toEqual([
      '/',
      '/src',
      '/src/a/c',
      '/src/b',
      '/src!',
      '/srcfoo',
      '/\uffff',
      '/\u{1f600}',
    ])
    expect(await paths('/src')).toEqual(['/src', '/src/a/c', '/src/b', '/src!', '/srcfoo'])
    expect(await paths('/src/')).toEqual(['/src/a/c', '/src/b'])
    await reopen()
    expect(await paths('')).toHaveLength(8)
    await expect(paths('src')).rejects.toEqual(refused('INVALID_ARGUMENT'))
  })

  test('reject invalid arguments', async () => {
    for (const timeoutSeconds of [0, -1, 0.5, Number.NaN, Infinity, '5' as unknown as number]) {
      await expect(lock('/a', timeoutSeconds)).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
        details: { field: 'timeoutSeconds' },
      })
    }
    for (const path of ['a', '/a/', '/../a', '/\0']) {
      await expect(lock(path)).rejects.toEqual(refused('INVALID_ARGUMENT'))
    }
    const lockId = 5 as unknown as string
    await expect(session.fileLocks.unlock({ path: '/a', lockId })).rejects.toEqual(
      refused('INVALID_ARGUMENT'),
    )
    expect(await paths()).toEqual([])
  })

  test('survive a restore and are not inherited by forks', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    const { lockId } = await lock()
    const fork = await session.fork()
    expect(await fork.fileLocks.list()).toEqual({ locks: [] })
    await fork.fileLocks.lock({ path: '/a', timeoutSeconds: 5 })
    await session.restore({ checkpointLabel: 'before' })
    expect(await session.fileLocks.list()).toMatchObject({ locks: [{ lockId }] })
    await reopen()
    expect(await session.fileLocks.list()).toMatchObject({ locks: [{ lockId }] })
  })

  test('end with the session', async () => {
    await lock()
    await session.delete()
    await expect(lock('/b')).rejects.toEqual(refused('SESSION_NOT_FOUND'))
    await expect(session.fileLocks.list()).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })
})
