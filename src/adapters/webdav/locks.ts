import { randomUUID } from 'node:crypto'
import { DavError } from './dav-error.js'
import { webdavLimits } from './limits.js'
import { isBelow, parentOf } from './place.js'

/** The owner of a lock, as its client described it. */
export interface LockOwner {
  readonly text: string
  readonly href: string | undefined
}

/** An exclusive lock for writing. */
export interface Lock {
  readonly token: string
  /** Without symlinks. */
  readonly path: string
  /** Whether it also locks everything below the path. */
  readonly isDeep: boolean
  readonly owner: LockOwner
  readonly seconds: number
  readonly expiresAtMs: number
}

/** The locks of the clients of one handler. They are in memory, and bind no other user of the session. */
export class Locks {
  /** By path: all locks are exclusive. */
  readonly #locks = new Map<string, Lock>()
  readonly #nowMs: () => number

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** The lock at the path itself. */
  at(path: string): Lock | undefined {
    const lock = this.#locks.get(path)
    if (lock === undefined || lock.expiresAtMs > this.#nowMs()) return lock
    this.#locks.delete(path)
    return undefined
  }

  /** The locks under which the content of a path is: that of the path, and deep ones of its parents. */
  covering(path: string): readonly Lock[] {
    const found: Lock[] = []
    for (let at = path; ; at = parentOf(at)) {
      const lock = this.at(at)
      if (lock !== undefined && (at === path || lock.isDeep)) found.push(lock)
      if (at === '/') return found
    }
  }

  below(path: string): readonly Lock[] {
    this.#expire()
    return [...this.#locks.values()].filter((lock) => isBelow(lock.path, path))
  }

  /** @throws DavError if the path is locked, or there are too many locks */
  take({
    path,
    isDeep,
    owner,
    seconds,
  }: Pick<Lock, 'path' | 'isDeep' | 'owner'> & { readonly seconds: number | undefined }): Lock {
    if (this.covering(path).length > 0 || (isDeep && this.below(path).length > 0))
      throw new DavError(423, 'another client locked the path: wait until it releases its lock', {
        condition: '<D:no-conflicting-lock/>',
      })
    this.#expire()
    if (this.#locks.size >= webdavLimits.locks)
      throw new DavError(507, `there are already ${webdavLimits.locks} locks: release some first`)
    return this.#put({ token: `urn:uuid:${randomUUID()}`, path, isDeep, owner }, seconds)
  }

  /** Starts the time of a lock again. Undefined if no lock with this token covers the path. */
  refresh(token: string, path: string, seconds: number | undefined): Lock | undefined {
    const lock = this.#covering(token, path)
    return lock === undefined ? undefined : this.#put(lock, seconds)
  }

  /** Returns whether there was such a lock. */
  release(token: string, path: string): boolean {
    const lock = this.#covering(token, path)
    return lock !== undefined && this.#locks.delete(lock.path)
  }

  /** Drops the locks of a path that no longer exists, and those below it. */
  forget(path: string): void {
    this.#locks.delete(path)
    for (const lock of this.below(path)) this.#locks.delete(lock.path)
  }

  #covering(token: string, path: string): Lock | undefined {
    return this.covering(path).find((lock) => lock.token === token)
  }

  #put(
    { token, path, isDeep, owner }: Pick<Lock, 'token' | 'path' | 'isDeep' | 'owner'>,
    asked: number | undefined,
  ): Lock {
    const seconds = Math.max(1, Math.min(asked ?? Infinity, webdavLimits.lockSeconds))
    const lock = { token, path, isDeep, owner, seconds, expiresAtMs: this.#nowMs() + seconds * 1000 }
    this.#locks.set(path, lock)
    return lock
  }

  #expire(): void {
    for (const path of this.#locks.keys()) this.at(path)
  }
}

/** The seconds that a client asks for. Undefined without a number. */
export function parseTimeout(header: string | undefined): number | undefined {
  const [, seconds] = /Second-(\d{1,10})(?!\d)/i.exec(header ?? '') ?? []
  return seconds === undefined ? undefined : Number(seconds)
}
