import {
  parseFileLock,
  parseFileLockList,
  parseFileLockReference,
  parseForceUnlock,
  parseRenewal,
  type FileForceUnlockRequest,
  type FileLock,
  type FileLockReference,
  type FileLockRequest,
  type FileLocks,
} from '../services/locks/file-locks.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * Locks on paths with which the clients of a session coordinate changes. They do not prevent writing. A lock ends
 * when its time is over. Until then a durable storage keeps it when the engine closes. Forks start without any.
 *
 * All methods with a path fail with INVALID_ARGUMENT or NAME_TOO_LONG when the path has the wrong form or is too
 * long.
 */
export class SessionFileLocks {
  readonly #access: SessionAccess
  readonly #service: FileLocks

  /** @internal */
  constructor(access: SessionAccess, service: FileLocks) {
    this.#access = access
    this.#service = service
  }

  /**
   * Takes the lock of a path. The id of the lock is the right to renew and release it. The path need not exist.
   *
   * @throws {EngineError} LOCK_HELD when the lock is held, also by the same caller.
   * @throws {EngineError} QUOTA when the session would have over 10,000 locks.
   *
   * @example
   * const { lockId } = await session.fileLocks.lock({ path: '/src/a.ts', timeoutSeconds: 60 })
   */
  async lock(request: FileLockRequest): Promise<{
    /** The id of the lock, to renew and release it. */
    lockId: string
  }> {
    const lock = parseFileLock(request)
    return this.#access.run('lockFile', (live) => this.#service.lock(this.#access.core, live, lock))
  }

  /**
   * Starts the time of a lock anew. The new time may be shorter than the time left.
   *
   * @throws {EngineError} LOCK_NOT_FOUND when the lock was released, expired, or has another id.
   *
   * @example
   * const { lockId } = await session.fileLocks.lock({ path: '/src/a.ts', timeoutSeconds: 60 })
   * await session.fileLocks.renew({ path: '/src/a.ts', lockId, timeoutSeconds: 60 })
   */
  async renew(request: FileLockRequest & FileLockReference): Promise<{
    /** The id of the lock, which stays the same. */
    lockId: string
    /** Seconds until the lock expires, rounded up. */
    remainingTtlSeconds: number
  }> {
    const lock = parseRenewal(request)
    return this.#access.run('renewFileLock', (live) => this.#service.renew(this.#access.core, live, lock))
  }

  /**
   * The locks that are currently held. The id of a lock is the right to release it, so `lockId` is '' for a handle
   * that may not release the locks of others.
   *
   * @example
   * const { locks } = await session.fileLocks.list({ pathPrefix: '/src/' })
   */
  async list(
    request: {
      /**
       * A literal prefix of the paths: `/src` also matches `/srcfoo`, and `/src/` only the entries below the directory.
       * Absent or '' matches all.
       */
      readonly pathPrefix?: string
    } = {},
  ): Promise<{
    /** In the order of their paths. */
    locks: FileLock[]
  }> {
    const prefix = parseFileLockList(request)
    return this.#access.look('listFileLocks', (live) =>
      this.#service.list(this.#access.core, live, prefix, this.#access.allows('forceUnlockFile')),
    )
  }

  /**
   * Releases a lock.
   *
   * @throws {EngineError} LOCK_NOT_FOUND when the lock was released, expired, or has another id.
   *
   * @example
   * const { lockId } = await session.fileLocks.lock({ path: '/src/a.ts', timeoutSeconds: 60 })
   * await session.fileLocks.unlock({ path: '/src/a.ts', lockId })
   */
  async unlock(request: FileLockReference): Promise<void> {
    const lock = parseFileLockReference(request)
    return this.#access.run('unlockFile', (live) => this.#service.unlock(this.#access.core, live, lock))
  }

  /**
   * Releases the lock of a path for any holder. The event records the reason.
   *
   * @throws {EngineError} LOCK_NOT_FOUND when nothing holds a lock on the path.
   *
   * @example
   * const { ownerId } = await session.fileLocks.forceUnlock({ path: '/src/a.ts', reason: 'The agent stopped.' })
   */
  async forceUnlock(request: FileForceUnlockRequest): Promise<{
    /** The id of the released lock. */
    lockId: string
    /** The principal that held it. */
    ownerId: string
  }> {
    const lock = parseForceUnlock(request)
    return this.#access.run('forceUnlockFile', (live) =>
      this.#service.forceUnlock(this.#access.core, live, lock),
    )
  }
}
