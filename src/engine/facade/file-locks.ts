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
 * Locks on paths that clients of a session use to coordinate changes. They do not prevent
 * writing. A lock ends when its time is over; until then it survives the closing of the engine, on a durable
 * storage. Forks have none of them.
 */
export class SessionFileLocks {
  readonly #access: SessionAccess
  readonly #service: FileLocks

  constructor(access: SessionAccess, service: FileLocks) {
    this.#access = access
    this.#service = service
  }

  /**
   * Takes the lock of a path; its id is the right to renew and release it. The path need not exist.
   * LOCK_HELD for everyone while it is held, its holder included; QUOTA for over 10,000 in a session.
   *
   * @example
   * const { lockId } = await session.fileLocks.lock({ path: '/src/a.ts', timeoutSeconds: 60 })
   */
  async lock(request: FileLockRequest): Promise<{ lockId: string }> {
    const lock = parseFileLock(request)
    return this.#access.run('lockFile', (live) => this.#service.lock(this.#access.core, live, lock))
  }

  /** The lock's time starts anew; it may be shorter than the time left. LOCK_NOT_FOUND. */
  async renew(
    request: FileLockRequest & FileLockReference,
  ): Promise<{ lockId: string; remainingTtlSeconds: number }> {
    const lock = parseRenewal(request)
    return this.#access.run('renewFileLock', (live) => this.#service.renew(this.#access.core, live, lock))
  }

  /**
   * The locks that are held, in the order of their paths. `pathPrefix` is literal: `/src` also matches
   * `/srcfoo`; absent or '' is all. The id of a lock is the right to release it, so `lockId` is '' for a handle that
   * may not release the locks of others.
   */
  async list(request: { readonly pathPrefix?: string } = {}): Promise<{ locks: FileLock[] }> {
    const prefix = parseFileLockList(request)
    return this.#access.look('listFileLocks', (live) =>
      this.#service.list(this.#access.core, live, prefix, this.#access.allows('forceUnlockFile')),
    )
  }

  /** LOCK_NOT_FOUND when it was released, its time ran out, or the id is of another lock. */
  async unlock(request: FileLockReference): Promise<void> {
    const lock = parseFileLockReference(request)
    return this.#access.run('unlockFile', (live) => this.#service.unlock(this.#access.core, live, lock))
  }

  /** Ends anyone's lock, and returns its owner. The reason is in the event. LOCK_NOT_FOUND. */
  async forceUnlock(request: FileForceUnlockRequest): Promise<{ lockId: string; ownerId: string }> {
    const lock = parseForceUnlock(request)
    return this.#access.run('forceUnlockFile', (live) =>
      this.#service.forceUnlock(this.#access.core, live, lock),
    )
  }
}
