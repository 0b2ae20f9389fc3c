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
 * Advisory locks in the manner of fcntl and flock: they do not prevent reading or writing. The path must
 * exist, and the last symlink is followed. A lock belongs to the file: it follows renames and goes with the
 * file. Locks live until they are released, and end with the file, the session and the engine; forks have
 * none of them.
 *
 * A new lock replaces its owner's locks in the range. Waiting requests are served in the order in which
 * they came; only an upgrade of a lock goes ahead of requests that wait for that lock.
 */
export class SessionPosixLocks {
  readonly #access: SessionAccess
  readonly #service: PosixLocks

  constructor(access: SessionAccess, service: PosixLocks) {
    this.#access = access
    this.#service = service
  }

  /** The lock that would make `set` fail. PATH_NOT_FOUND. */
  async get(request: PosixGetRequest): Promise<PosixLockConflict> {
    const lock = parseGet(request)
    return this.#access.look('getPosixLock', (live) => this.#service.get(live, lock))
  }

  /**
   * Locks a range, or throws LOCK_HELD at once: another owner holds a conflicting lock, or waits for one.
   * PATH_NOT_FOUND; QUOTA for over 10,000 locks in a session.
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
   * Locks a range, and waits as long as that takes; to limit the wait pass a signal, which rejects with its
   * reason. DEADLOCK at once when owners would wait for each other for ever; their other requests go on;
   * PATH_NOT_FOUND, also when the file is gone before the lock was had; QUOTA when over 1,000 requests of the
   * session wait; STORE_CLOSED when the engine closes.
   *
   * @example
   * await session.posixLocks.setBlocking({ path: '/db', kind: PosixLockKind.SHARED, owner }, { signal: AbortSignal.timeout(5000) })
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
   * Locks the whole file, independently of locks on ranges; a lock of another mode that the owner has is
   * exchanged for it in one step. The errors are those of `set`, or with `blocking` those of `setBlocking`.
   */
  async flock(request: PosixFlockRequest, options: LockWaitOptions = {}): Promise<void> {
    const { blocking, ...lock } = parseFlock(request)
    const signal = parseSignal(options)
    signal?.throwIfAborted()
    return this.#access.run('flock', (live) =>
      this.#service.set(this.#access.core, live, lock, blocking && { signal }),
    )
  }

  /** Releases the owner's locks in the range, or its flock lock; it need not hold any. PATH_NOT_FOUND. */
  async funlock(request: PosixUnlockRequest): Promise<void> {
    const lock = parseUnlock(request)
    return this.#access.run('funlock', (live) => this.#service.release(this.#access.core, live, lock))
  }
}
