import {
  parseFlock,
  parseGet,
  parseSet,
  parseSignal,
  parseUnlock,
  type LockWaitOptions,
  type PosixFlockRequest,
  type PosixGetRequest,
  type PosixSetRequest,
  type PosixUnlockRequest,
} from '../services/locks/posix-lock-requests.js'
import type { PosixLockConflict, PosixLocks } from '../services/locks/posix-locks.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * Advisory locks in the manner of fcntl and flock: they do not prevent reading or writing. The path must exist, and
 * symlinks are followed. A lock belongs to the file: it follows renames and ends with the file. Locks also end when
 * they are released, and with the session or the engine. Forks start without any.
 *
 * A new lock replaces the locks of its owner in the range. Waiting requests are served in their order; only an
 * upgrade of a lock goes ahead of requests that wait for that lock.
 */
export class SessionPosixLocks {
  readonly #access: SessionAccess
  readonly #service: PosixLocks

  /** @internal */
  constructor(access: SessionAccess, service: PosixLocks) {
    this.#access = access
    this.#service = service
  }

  /**
   * The lock that would make `set` fail with the same request.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   *
   * @example
   * const lock = { path: '/db', kind: PosixLockKind.SHARED, owner: { ownerId: 'agent-1' } }
   * const { hasConflict, conflict } = await session.posixLocks.get(lock)
   */
  async get(request: PosixGetRequest): Promise<PosixLockConflict> {
    const lock = parseGet(request)
    return this.#access.look('getPosixLock', (live) => this.#service.get(live, lock))
  }

  /**
   * Locks a range, or fails at once.
   *
   * @throws {EngineError} LOCK_HELD when another owner holds a conflicting lock, or waits for one.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} QUOTA when the session would have over 10,000 locks.
   *
   * @example
   * const owner = { ownerId: 'agent-1' }
   * await session.posixLocks.set({ path: '/db', kind: PosixLockKind.EXCLUSIVE, range: { start: 0, length: 100 }, owner })
   */
  async set(request: PosixSetRequest): Promise<void> {
    const lock = parseSet(request)
    return this.#access.run('setPosixLock', (live) => this.#service.set(this.#access.core, live, lock, false))
  }

  /**
   * Locks a range, and waits for it without a limit. To limit the wait pass a signal, which rejects with its reason.
   *
   * @throws {EngineError} DEADLOCK when owners would wait for each other for ever. Their other requests go on.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist, or the file is deleted during the wait.
   * @throws {EngineError} QUOTA when over 1,000 requests of the session would wait.
   * @throws {EngineError} STORE_CLOSED when the engine closes during the wait.
   *
   * @example
   * const lock = { path: '/db', kind: PosixLockKind.SHARED, owner: { ownerId: 'agent-1' } }
   * await session.posixLocks.setBlocking(lock, { signal: AbortSignal.timeout(5000) })
   */
  async setBlocking(request: PosixSetRequest, options: LockWaitOptions = {}): Promise<void> {
    const lock = parseSet(request)
    const signal = parseSignal(options)
    signal?.throwIfAborted()
    return this.#access.run('setPosixLockBlocking', (live) =>
      this.#service.set(this.#access.core, live, lock, { signal }),
    )
  }

  /**
   * Locks the whole file, independently of locks on ranges. If the owner has a lock of another mode, it is exchanged
   * in one step. With `blocking` the call waits, and fails like `setBlocking`.
   *
   * @throws {EngineError} LOCK_HELD when another owner holds a conflicting lock, or waits for one, without
   * `blocking`.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} QUOTA when the session would have over 10,000 locks.
   *
   * @example
   * await session.posixLocks.flock({ path: '/db', mode: PosixFlockMode.SHARED, owner: { ownerId: 'agent-1' } })
   */
  async flock(request: PosixFlockRequest, options: LockWaitOptions = {}): Promise<void> {
    const { blocking, ...lock } = parseFlock(request)
    const signal = parseSignal(options)
    signal?.throwIfAborted()
    return this.#access.run('flock', (live) =>
      this.#service.set(this.#access.core, live, lock, blocking && { signal }),
    )
  }

  /**
   * Releases the locks of the owner in the range, or its flock lock. It need not hold any.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} QUOTA when a release in the middle of a range would leave over 10,000 locks.
   *
   * @example
   * await session.posixLocks.funlock({ path: '/db', owner: { ownerId: 'agent-1' } })
   */
  async funlock(request: PosixUnlockRequest): Promise<void> {
    const lock = parseUnlock(request)
    return this.#access.run('funlock', (live) => this.#service.release(this.#access.core, live, lock))
  }
}
