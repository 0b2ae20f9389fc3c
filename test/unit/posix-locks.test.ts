import { getEventListeners } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { PosixLocks } from '../../src/engine/services/locks/posix-locks.js'
import {
  limits,
  memoryStorage,
  openEngine,
  PosixFlockMode,
  PosixLockKind,
  type Engine,
  type PosixLockOwner,
  type PosixLockRange,
  type PosixSetRequest,
  type Session,
  type SessionPosixLocks,
} from '../../src/index.js'
import { isLong } from '../support/seed.js'
import {
  conflicts,
  endOfRanges,
  firstConflict,
  overlap,
  replaced,
} from '../../src/engine/services/locks/posix-lock-ranges.js'

const [a, b, c] = ['a', 'b', 'c'].map((ownerId) => ({ ownerId })) as [
  PosixLockOwner,
  PosixLockOwner,
  PosixLockOwner,
]
const { EXCLUSIVE, SHARED } = PosixLockKind

describe.each([
  ...(isLong ? [['memory', () => memoryStorage()] as const] : []),
  [
    'durable memory without synchronous reads',
    () => memoryStorage({ durable: true, syncReads: false }),
  ] as const,
])('POSIX locks on %s', (_name, makeStorage) => {
  let engine: Engine
  let session: Session
  let locks: SessionPosixLocks

  beforeEach(async () => {
    const storage = makeStorage()
    const open = (): Promise<Engine> => openEngine({ storage })
    engine = await open()
    session = await engine.sessions.create({ files: { '/d/f': '1', '/g': '2' } })
    await session.files.createSymlink({ linkPath: '/link', target: 'd/f' })
    locks = session.posixLocks
  })

  afterEach(() => engine.close())

  const set = (
    owner: PosixLockOwner,
    start: number | bigint = 0,
    length: number | bigint = 0,
    kind: PosixLockKind = EXCLUSIVE,
    path = '/d/f',
  ): Promise<void> => locks.set({ path, kind, range: { start, length }, owner })

  /** The ranges that conflict with another owner, in order. */
  async function held(path = '/d/f'): Promise<string[]> {
    const found: string[] = []
    for (let start = 0n; ;) {
      const range = { start, length: 0n }
      const { conflict } = await locks.get({ path, kind: EXCLUSIVE, range, owner: { ownerId: 'probe' } })
      if (conflict === undefined) return found
      const end = conflict.range.start + conflict.range.length
      found.push(
        `${conflict.owner.ownerId} ${conflict.kind === SHARED ? 's' : 'x'} ${conflict.range.start} ${conflict.range.length}`,
      )
      if (conflict.range.length === 0n) return found
      start = end
    }
  }

  const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })

  test('report the conflicting lock', async () => {
    const owner = { ownerId: 'a', pid: 7, clientId: 'host' }
    await locks.set({ path: '/link', kind: SHARED, range: { start: 5, length: 10 }, owner })
    const range = { start: 0, length: 6 }
    expect(await locks.get({ path: '/d/f', kind: EXCLUSIVE, range, owner: b })).toEqual({
      hasConflict: true,
      conflict: { kind: SHARED, range: { start: 5n, length: 10n }, owner, isFlock: false },
    })
    expect(await locks.get({ path: '/d/f', kind: SHARED, range, owner: b })).toEqual({ hasConflict: false })
    expect(await locks.get({ path: '/d/f', kind: EXCLUSIVE, range, owner })).toEqual({ hasConflict: false })
    expect(await locks.get({ path: '/d/f', kind: EXCLUSIVE, owner: b, isFlock: true })).toEqual({
      hasConflict: false,
    })
    await locks.flock({ path: '/d/f', owner })
    expect(await locks.get({ path: '/d/f', kind: SHARED, range, owner: b, isFlock: true })).toEqual({
      hasConflict: true,
      conflict: { kind: EXCLUSIVE, range: { start: 0n, length: 0n }, owner, isFlock: true },
    })
    // The same ownerId of another client is a different owner.
    await expect(set({ ownerId: 'a', clientId: 'other' })).rejects.toEqual(refused('LOCK_HELD'))
  })

  test('of one owner replace, split and merge', async () => {
    await set(a, 0, 5)
    await set(a, 10, 10)
    expect(await held()).toEqual(['a x 0 5', 'a x 10 10'])
    // Touches the lock before it, and the lock after it.
    await set(a, 5, 5)
    expect(await held()).toEqual(['a x 0 20'])
    await set(a, 5, 5, SHARED)
    expect(await held()).toEqual(['a x 0 5', 'a s 5 5', 'a x 10 10'])
    await locks.funlock({ path: '/d/f', range: { start: 12, length: 2 }, owner: a })
    expect(await held()).toEqual(['a x 0 5', 'a s 5 5', 'a x 10 2', 'a x 14 6'])
    await set(a, 3, 0)
    expect(await held()).toEqual(['a x 0 0'])
    await locks.funlock({ path: '/d/f', owner: b })
    expect(await held()).toEqual(['a x 0 0'])
    await locks.funlock({ path: '/d/f', owner: a })
    expect(await held()).toEqual([])
  })

  test('extend to 2^63', async () => {
    const last = 2n ** 63n - 1n
    await set(a, last, 1)
    await set(b, 0, last)
    await expect(set(b, 0, 0)).rejects.toEqual(refused('LOCK_HELD'))
    expect(await held()).toEqual([`b x 0 ${last}`, `a x ${last} 0`])
    const wrong: PosixLockRange[] = [
      { start: last, length: 2 },
      { start: 1n, length: 2n ** 63n },
      { start: -1 },
      { start: 0.5 },
      { start: 2 ** 53 },
      { length: -1n },
      { start: '1' as unknown as number },
      null as unknown as PosixLockRange,
    ]
    for (const range of wrong) {
      const request = { path: '/g', kind: EXCLUSIVE, range, owner: a }
      await expect(locks.set(request)).rejects.toEqual(refused('INVALID_ARGUMENT'))
      await expect(locks.funlock(request)).rejects.toEqual(refused('INVALID_ARGUMENT'))
    }
  })

  test('reject invalid arguments', async () => {
    const request = { path: '/g', kind: EXCLUSIVE, owner: a }
    const wrong: [change: object, field: string][] = [
      [{ path: 'g' }, 'path'],
      [{ kind: 'POSIX_LOCK_KIND_UNLOCK' }, 'kind'],
      [{ kind: 'toString' }, 'kind'],
      [{ owner: undefined }, 'owner'],
      [{ owner: { ownerId: '' } }, 'owner.ownerId'],
      [{ owner: { ownerId: 'a', pid: 1.5 } }, 'owner.pid'],
      [{ owner: { ownerId: 'a', clientId: 1 } }, 'owner.clientId'],
    ]
    for (const [change, field] of wrong) {
      await expect(locks.set({ ...request, ...change })).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
        details: { field },
      })
    }
    const mode = 'exclusive' as PosixFlockMode
    await expect(locks.flock({ path: '/g', mode, owner: a })).rejects.toEqual(refused('INVALID_ARGUMENT'))
    const signal = {} as AbortSignal
    await expect(locks.setBlocking(request, { signal })).rejects.toEqual(refused('INVALID_ARGUMENT'))
    await expect(set(a, 0, 0, EXCLUSIVE, '/none')).rejects.toEqual(refused('PATH_NOT_FOUND'))
    await expect(locks.get({ path: '/none', kind: SHARED, owner: a })).rejects.toEqual(
      refused('PATH_NOT_FOUND'),
    )
  })

  test('let waiters continue when their owner shrinks them', async () => {
    const order: string[] = []
    const wait = async (owner: PosixLockOwner, start: number, length: number): Promise<void> => {
      await locks.setBlocking({ path: '/d/f', kind: SHARED, range: { start, length }, owner })
      order.push(owner.ownerId)
    }
    await set(a, 0, 10)
    await set(b, 15, 5)
    const waits = [wait(a, 5, 15), wait(c, 5, 1)]
    await set(b, 15, 5, SHARED)
    await nextTurn()
    expect(order.toSorted()).toEqual([a.ownerId, c.ownerId])
    await Promise.all(waits)
  })

  test('are granted in call order without overtaking', async () => {
    const order: string[] = []
    const wait = async (owner: PosixLockOwner, kind: PosixLockKind): Promise<void> => {
      await locks.setBlocking({ path: '/d/f', kind, owner })
      order.push(owner.ownerId)
    }
    await set(a, 0, 0, SHARED)
    const writer = wait(b, EXCLUSIVE)
    const reader = wait(c, SHARED)
    await expect(set({ ownerId: 'd' }, 0, 1, SHARED)).rejects.toEqual(refused('LOCK_HELD'))
    // A new request of the holder has priority over waiters.
    await set(a, 0, 0, SHARED)
    await set(a)
    await locks.funlock({ path: '/d/f', owner: a })
    await writer
    expect(order).toEqual(['b'])
    expect(await held()).toEqual(['b x 0 0'])
    await set(b, 0, 0, SHARED)
    await reader
    expect(order).toEqual(['b', 'c'])
  })

  test('are not granted before an earlier request that overlaps them', async () => {
    await set(a, 0, 20)
    const order: string[] = []
    const waits = [
      { owner: b, length: 20 },
      { owner: c, length: 5 },
    ].map(async ({ owner, length }) => {
      await locks.setBlocking({ path: '/d/f', kind: EXCLUSIVE, range: { start: 0, length }, owner })
      order.push(owner.ownerId)
    })
    await locks.funlock({ path: '/d/f', range: { start: 0, length: 5 }, owner: a })
    await nextTurn()
    expect(order).toEqual([])
    await locks.funlock({ path: '/d/f', owner: a })
    await waits[0]
    expect(order).toEqual(['b'])
    await locks.funlock({ path: '/d/f', owner: b })
    await Promise.all(waits)
    expect(order).toEqual(['b', 'c'])
  })

  test('detect deadlocks across files and lock spaces, and between two upgrades', async () => {
    await set(a)
    await locks.flock({ path: '/g', owner: b })
    const first = locks.flock({ path: '/g', owner: a, mode: PosixFlockMode.SHARED, blocking: true })
    await expect(locks.setBlocking({ path: '/d/f', kind: SHARED, owner: b })).rejects.toEqual(
      refused('DEADLOCK'),
    )
    await locks.funlock({ path: '/g', owner: b, isFlock: true })
    await first
    await set(a, 0, 0, SHARED)
    await set(b, 0, 0, SHARED)
    const upgrade = locks.setBlocking({ path: '/d/f', kind: EXCLUSIVE, owner: a })
    await expect(locks.setBlocking({ path: '/d/f', kind: EXCLUSIVE, owner: b })).rejects.toEqual(
      refused('DEADLOCK'),
    )
    expect(await held()).toEqual(expect.arrayContaining(['a s 0 0']))
    await locks.funlock({ path: '/d/f', owner: b })
    await upgrade
    expect(await held()).toEqual(['a x 0 0'])
  })

  test('are no longer awaited after an abort', async () => {
    await set(a, 0, 0, SHARED)
    const abort = new AbortController()
    const { signal } = abort
    const first = locks.setBlocking({ path: '/d/f', kind: EXCLUSIVE, owner: b }, { signal })
    const second = locks.setBlocking({ path: '/d/f', kind: SHARED, owner: { ownerId: 'd' } }, { signal })
    const third = locks.setBlocking({ path: '/d/f', kind: SHARED, owner: c })
    await expect(set(c, 0, 0, SHARED)).rejects.toEqual(refused('LOCK_HELD'))
    abort.abort()
    await expect(first).rejects.toMatchObject({ name: 'AbortError' })
    // The lock is free now, but its requester has left.
    await expect(second).rejects.toMatchObject({ name: 'AbortError' })
    await third
    const reason = new Error('too long')
    await expect(
      locks.flock({ path: '/g', owner: a, blocking: true }, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason)
    expect(await held('/g')).toEqual([])
  })

  test('leave no listener on a signal after the wait', async () => {
    await set(a)
    const { signal } = new AbortController()
    const waits = [b, c].map((owner) => locks.setBlocking({ path: '/d/f', kind: SHARED, owner }, { signal }))
    await nextTurn()
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    await locks.funlock({ path: '/d/f', owner: a })
    await Promise.all(waits)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  test('follow a moved file and are removed with it', async () => {
    await set(a)
    await session.files.rename({ sourcePath: '/d', destinationPath: '/e' })
    await session.files.write({ path: '/e/f', content: 'changed' })
    await session.files.write({ path: '/d/f', content: 'another' })
    await set(b)
    await expect(set(b, 0, 0, EXCLUSIVE, '/e/f')).rejects.toEqual(refused('LOCK_HELD'))
    const waiting = locks.setBlocking({ path: '/e/f', kind: SHARED, owner: c })
    const outcome = waiting.catch((error: unknown) => error)
    await expect(set(c, 0, 0, SHARED, '/e/f')).rejects.toEqual(refused('LOCK_HELD'))
    await session.files.delete({ path: '/e/f' })
    expect(await outcome).toMatchObject({ reason: 'PATH_NOT_FOUND', details: { path: '/e/f' } })
    await session.files.rename({ sourcePath: '/g', destinationPath: '/d/f' })
    await set(c)
    await locks.funlock({ path: '/d/f', owner: c })
  })

  test('are removed with a file that was removed and restored before', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await set(a, 0, 0, EXCLUSIVE, '/g')
    for (let round = 0; round < 2; round++) {
      await set(a)
      const late = new AbortController()
      const waiting = locks.setBlocking({ path: '/d/f', kind: SHARED, owner: b }, { signal: late.signal })
      const outcome = waiting.catch((error: unknown) => error)
      await session.files.delete({ path: '/d/f' })
      late.abort(new Error('the removal was not noticed'))
      expect(await outcome).toMatchObject({ reason: 'PATH_NOT_FOUND', details: { path: '/d/f' } })
      await session.restore({ checkpointLabel: 'before' })
    }
  })

  test('are shared by all names of a file, and are removed with the last', async () => {
    await session.files.link({ srcPath: '/d/f', dstPath: '/second' })
    await set(a)
    await expect(set(b, 0, 0, EXCLUSIVE, '/second')).rejects.toEqual(refused('LOCK_HELD'))
    await session.files.unlink({ path: '/d/f' })
    await expect(set(b, 0, 0, EXCLUSIVE, '/second')).rejects.toEqual(refused('LOCK_HELD'))
    const outcome = locks
      .setBlocking({ path: '/second', kind: EXCLUSIVE, owner: b })
      .catch((error: unknown) => error)
    await session.files.removeDirectory({ path: '/d' })
    await session.files.rename({ sourcePath: '/g', destinationPath: '/second' })
    expect(await outcome).toMatchObject({ reason: 'PATH_NOT_FOUND' })
    await set(b, 0, 0, EXCLUSIVE, '/second')
  })

  test('also apply to directories, survive a restore, and are not inherited', async () => {
    await session.checkpoint({ checkpointLabel: 'one' })
    await set(a, 0, 0, EXCLUSIVE, '/')
    await set(a, 0, 0, EXCLUSIVE, '/d')
    const fork = await session.fork()
    await fork.posixLocks.set({ path: '/d', kind: EXCLUSIVE, owner: b })
    await session.restore({ checkpointLabel: 'one' })
    await expect(set(b, 0, 0, EXCLUSIVE, '/d')).rejects.toEqual(refused('LOCK_HELD'))
    await expect(set(b, 0, 0, EXCLUSIVE, '/')).rejects.toEqual(refused('LOCK_HELD'))
  })

  test('copy their request at the call', async () => {
    const request = { path: '/d/f', kind: EXCLUSIVE, range: { start: 1, length: 2 }, owner: { ownerId: 'a' } }
    const pending = locks.set(request)
    request.range.start = 50
    request.owner.ownerId = 'b'
    await pending
    expect(await held()).toEqual(['a x 1 2'])
  })

  test('end with the session', async () => {
    await set(a)
    const waiting = locks.setBlocking({ path: '/d/f', kind: SHARED, owner: b })
    const outcome = waiting.catch((error: unknown) => error)
    await set(a, 0, 0, SHARED, '/g')
    await engine.sessions.delete(session.id)
    expect(await outcome).toEqual(refused('SESSION_NOT_FOUND'))
    await expect(set(a)).rejects.toEqual(refused('SESSION_NOT_FOUND'))
  })

  test('end with the engine', async () => {
    await set(a)
    const waiting = locks.setBlocking({ path: '/d/f', kind: SHARED, owner: b })
    const outcome = waiting.catch((error: unknown) => error)
    await set(a, 0, 0, SHARED, '/g')
    const closing = engine.close()
    await expect(locks.setBlocking({ path: '/d/f', kind: SHARED, owner: b })).rejects.toEqual(
      refused('STORE_CLOSED'),
    )
    expect(await outcome).toEqual(refused('STORE_CLOSED'))
    await closing
  })

  test('allow at most 1,000 waiters per session', async () => {
    await set(a)
    let abort = new AbortController()
    const wait = (ownerId: string): Promise<string> =>
      locks
        .flock({ path: '/g', owner: { ownerId }, blocking: true }, { signal: abort.signal })
        .then(() => 'held')
        .catch((error: { reason?: string; name: string }) => error.reason ?? error.name)
    await wait('holder')
    const waits = Array.from({ length: 1001 }, (_, i) => wait(`${i}`))
    expect(await waits[1000]).toBe('QUOTA')
    abort.abort()
    expect(new Set(await Promise.all(waits.slice(0, 1000)))).toEqual(new Set(['AbortError']))
    // Requests that wait no longer do not count.
    abort = new AbortController()
    const again = wait('again')
    abort.abort()
    expect(await again).toBe('AbortError')
  })

  test.runIf(_name === 'memory')('are counted only while their files exist', async () => {
    const each = 100
    const paths = Array.from({ length: limits.heldLocks / each }, (_, i) => `/many/${i}`)
    await session.files.batch(paths.map((path) => ({ write: { path, content: '' } })))
    // The last lock is on another file, which stays.
    await set(b)
    for (const path of paths)
      for (let i = path === paths[0] ? 1 : 0; i < each; i++) await set(a, 2 * i, 1, SHARED, path)
    await expect(set(a, 0, 1, SHARED, '/g')).rejects.toEqual(refused('QUOTA'))
    await session.files.removeDirectory({ path: '/many', recursive: true })
    for (let i = 0; i < 2 * each; i++) await set(a, 2 * i, 1, SHARED, '/g')
  })

  test('keep their file in memory while there are any', async () => {
    const spied = vi.spyOn(PosixLocks.prototype, 'get')
    await held()
    const [live] = spied.mock.calls[0]!
    spied.mockRestore()
    const references = (): number => live.fileReferences?.size ?? 0
    await set(a)
    await set(b, 0, 0, EXCLUSIVE, '/g')
    await locks.flock({ path: '/g', owner: a })
    expect(references()).toBe(2)
    await locks.funlock({ path: '/d/f', owner: a })
    await locks.funlock({ path: '/g', owner: b })
    expect(references()).toBe(1)
    const abort = new AbortController()
    const waiting = locks.flock({ path: '/g', owner: c, blocking: true }, { signal: abort.signal })
    await locks.funlock({ path: '/g', owner: a, isFlock: true })
    await waiting
    await locks.funlock({ path: '/g', owner: c, isFlock: true })
    expect(references()).toBe(0)
    await set(a)
    await set(a, 0, 0, EXCLUSIVE, '/g')
    await session.delete()
    expect(references()).toBe(0)
  })

  test('wake only the affected waiters when released', async () => {
    const abort = new AbortController()
    const at = (start: number, ownerId: string): PosixSetRequest => ({
      path: '/g',
      kind: SHARED,
      range: { start, length: 1 },
      owner: { ownerId },
    })
    for (let i = 0; i < 1000; i++) await locks.set(at(i + 1, `holder ${i}`))
    await locks.set({ ...at(0, 'last'), kind: EXCLUSIVE })
    const waits = Array.from({ length: 490 }, (_, i) =>
      locks.setBlocking(at(0, `waiter ${i}`), { signal: abort.signal }),
    )
    for (let i = 0; i < 250; i++) {
      const { path, range, owner } = at(i + 1, `holder ${i}`)
      await locks.funlock({ path, range: range!, owner })
    }
    await locks.funlock({ path: '/g', owner: { ownerId: 'last' } })
    expect(await Promise.all(waits)).toHaveLength(490)
  })
})

describe('ranges of locks', () => {
  type Kind = 'shared' | 'exclusive'
  const owner = { key: 'a' }
  const lock = (start: number, end: number, kind: Kind = 'exclusive', key = 'a') => ({
    start: BigInt(start),
    end: BigInt(end),
    kind,
    owner: key === 'a' ? owner : { key },
  })
  const shown = (locks: readonly { start: bigint; end: bigint; kind: string }[]): string =>
    locks.map(({ start, end, kind }) => `${kind[0]}${start}-${end}`).join(' ')

  test.each([
    [0, 5, 5, 9, false],
    [0, 5, 4, 9, true],
    [5, 9, 0, 5, false],
    [5, 9, 0, 6, true],
    [0, 9, 3, 4, true],
  ])('%i to %i and %i to %i overlap: %s', (a, b, c, d, expected) => {
    expect(overlap(lock(a, b), lock(c, d))).toBe(expected)
    expect(overlap(lock(c, d), lock(a, b))).toBe(expected)
  })

  test('conflict between owners, if one is exclusive', () => {
    expect(conflicts(lock(0, 5), lock(4, 9, 'shared', 'b'))).toBe(true)
    expect(conflicts(lock(0, 5, 'shared'), lock(4, 9, 'exclusive', 'b'))).toBe(true)
    expect(conflicts(lock(0, 5, 'shared'), lock(4, 9, 'shared', 'b'))).toBe(false)
    expect(conflicts(lock(0, 5), lock(4, 9))).toBe(false)
    expect(conflicts(lock(0, 5), lock(5, 9, 'exclusive', 'b'))).toBe(false)
  })

  test('have a first conflict', () => {
    const locks = [lock(0, 2), lock(4, 6, 'shared'), lock(8, 10)]
    const first = (start: number, end: number, kind: Kind = 'exclusive'): string => {
      const found = firstConflict(locks, lock(start, end, kind, 'b'))
      return found === undefined ? '' : shown([found])
    }
    expect(first(0, 20)).toBe('e0-2')
    expect(first(1, 2)).toBe('e0-2')
    expect(first(2, 4)).toBe('')
    expect(first(2, 5)).toBe('s4-6')
    expect(first(2, 8, 'shared')).toBe('')
    expect(first(2, 9, 'shared')).toBe('e8-10')
    expect(first(6, 8)).toBe('')
    expect(first(10, 12)).toBe('')
  })

  test.each<[string, readonly ReturnType<typeof lock>[], [number, number], Kind | undefined, string]>([
    ['joins what touches', [lock(0, 2), lock(4, 6)], [2, 4], 'exclusive', 'e0-6'],
    ['joins only its own kind', [lock(0, 2, 'shared'), lock(4, 6)], [2, 4], 'exclusive', 's0-2 e2-6'],
    ['splits a lock of another kind', [lock(0, 9)], [3, 5], 'shared', 'e0-3 s3-5 e5-9'],
    ['keeps a lock of the same kind whole', [lock(0, 9)], [3, 5], 'exclusive', 'e0-9'],
    ['covers smaller ones', [lock(1, 2), lock(3, 4, 'shared')], [0, 5], 'exclusive', 'e0-5'],
    ['cuts at its start', [lock(0, 4)], [3, 9], undefined, 'e0-3'],
    ['cuts at its end', [lock(4, 9)], [0, 5], undefined, 'e5-9'],
    ['releases the middle', [lock(0, 9)], [3, 5], undefined, 'e0-3 e5-9'],
    ['releases what fits exactly', [lock(3, 5)], [3, 5], undefined, ''],
    ['leaves neighbours', [lock(0, 3), lock(5, 9)], [3, 5], undefined, 'e0-3 e5-9'],
    ['leaves others apart', [lock(0, 1), lock(8, 9)], [3, 5], 'exclusive', 'e0-1 e3-5 e8-9'],
  ])('a change %s', (_what, locks, [start, end], kind, after) => {
    const range = { start: BigInt(start), end: BigInt(end) }
    const request = kind === undefined ? undefined : lock(start, end, kind)
    expect(shown(replaced(locks, range, request))).toBe(after)
  })

  test('may end with the largest file', () => {
    const all = { start: 0n, end: endOfRanges }
    const held = replaced([], all, { ...all, kind: 'exclusive', owner })
    expect(shown(replaced(held, { start: 5n, end: endOfRanges }, undefined))).toBe('e0-5')
  })
})
