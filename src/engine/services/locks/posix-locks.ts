import { engineClosed, sharedStore, type EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { sessionNotFound, type Core } from '../../session/core.js'
import { addFileReference, removeFileReference, type FileReference } from '../../session/file-references.js'
import type { LiveSession } from '../../session/table/live.js'
import { notFound, resolve } from '../../session/reads/resolve.js'
import { touch } from '../../session/table/activity.js'
import { mutate } from '../../session/mutation-queue.js'
import type { Node } from '../../tree/node.js'
import {
  showLock,
  type Owner,
  type ParsedLock,
  type ParsedUnlock,
  type PosixLock,
} from './posix-lock-requests.js'
import { LockTable } from './posix-lock-table.js'

/** The result of `session.posixLocks.get`. */
export interface PosixLockConflict {
  /** Whether `session.posixLocks.set`, or `flock` with `isFlock`, would fail with the same request. */
  readonly hasConflict: boolean
  /** The conflicting lock: the first that is held, or else a waiting request. Absent without a conflict. */
  readonly conflict?: PosixLock
}

interface FoundNode {
  /** The path after symlinks have been followed. */
  readonly path: string
  readonly node: Node
}

/** The locks of a session. They exist from its first lock to its last. */
interface SessionLocks {
  /** The session that has the references. */
  live: LiveSession
  readonly table: LockTable<Owner>
  /** Held files by inode number: exactly the files that the table uses. */
  readonly references: Map<number, FileReference>
}

/**
 * Advisory locks on files and directories, in memory only. They belong to a file, not to a name: they follow its renames
 * and end with its removal. They survive a restore, a commit, and a reload of the session from the store. A fork starts
 * without locks.
 *
 * Requests take effect in the order of the calls, among the session's changes.
 */
export class PosixLocks {
  readonly #sessions = new Map<string, SessionLocks>()
  #closed = false

  async get(live: LiveSession, lock: ParsedLock): Promise<PosixLockConflict> {
    return whenLoaded(() => {
      const { ino } = this.#find(live, lock.path).node
      const conflict = this.#sessions.get(live.id)?.table.conflict({ ...lock, file: ino })
      if (conflict === undefined) return { hasConflict: false }
      return { hasConflict: true, conflict: showLock(conflict, lock.space === 'whole') }
    })
  }

  /**
   * Sets a lock. If the call waits for the lock, the promise resolves when the lock is held.
   *
   * @throws {EngineError} LOCK_HELD when another owner has the lock and the call does not wait
   * @throws {EngineError} DEADLOCK when owners would wait for each other
   * @throws {EngineError} QUOTA when the session has too many locks or waiting requests
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist, or its file is deleted before the lock
   * is held
   */
  set(
    core: Core,
    live: LiveSession,
    lock: ParsedLock,
    wait: { readonly signal: AbortSignal | undefined } | false,
  ): Promise<void> {
    if (core.sharing !== undefined)
      return Promise.reject(sharedStore('a POSIX lock', 'Use locks of files: session.locks'))
    return mutate(core, live, () => {
      // POSIX locks have no events, so their use of the session must be noted here.
      touch(core, live)
      const found = this.#find(live, lock.path)
      const request = { ...lock, file: found.node.ino }
      const session = this.#session(live)
      try {
        if (wait !== false) return session.table.wait(request, wait.signal)
        session.table.set(request)
        return Promise.resolve()
      } finally {
        this.#settle(session, found)
      }
    })
  }

  release(core: Core, live: LiveSession, lock: ParsedUnlock): Promise<void> {
    return mutate(core, live, () => {
      touch(core, live)
      const found = this.#find(live, lock.path)
      const session = this.#session(live)
      try {
        session.table.release({ ...lock, file: found.node.ino })
        return Promise.resolve()
      } finally {
        this.#settle(session, found)
      }
    })
  }

  /** Removes the locks of a deleted session, and rejects its waiters. */
  forget(sessionId: string): void {
    this.#end(sessionId, () => sessionNotFound(sessionId))
  }

  /** Rejects all waiters, and all later requests. */
  close(): void {
    this.#closed = true
    for (const sessionId of this.#sessions.keys()) this.#end(sessionId, engineClosed)
  }

  #find(live: LiveSession, path: string): FoundNode {
    if (this.#closed) throw engineClosed()
    const found = resolve(live.tree, path, true)
    if (found.node === undefined) throw notFound(path)
    return { path: found.path, node: found.node }
  }

  #session(live: LiveSession): SessionLocks {
    let session = this.#sessions.get(live.id)
    if (session === undefined) {
      const references = new Map<number, FileReference>()
      const table = new LockTable<Owner>((ino) => {
        // A file that was locked and unlocked in one step has no reference.
        const reference = references.get(ino)
        if (reference !== undefined) removeFileReference(reference)
        references.delete(ino)
        if (table.empty) this.#sessions.delete(live.id)
      })
      session = { live, table, references }
      this.#sessions.set(live.id, session)
    }
    session.live = live
    return session
  }

  /** Adds a reference to a file if it has locks or waiters. */
  #settle(session: SessionLocks, { path, node }: FoundNode): void {
    if (session.table.empty) this.#sessions.delete(session.live.id)
    const { ino } = node
    if (!session.table.uses(ino) || session.references.has(ino)) return
    const reference = addFileReference(session.live, path, node, () => {
      const { table, references } = session
      references.delete(ino)
      table.drop(ino, () => notFound(reference.path))
      if (table.empty) this.#sessions.delete(session.live.id)
    })
    session.references.set(ino, reference)
  }

  #end(sessionId: string, reason: () => EngineError): void {
    const session = this.#sessions.get(sessionId)
    if (session === undefined) return
    this.#sessions.delete(sessionId)
    for (const reference of session.references.values()) removeFileReference(reference)
    session.references.clear()
    session.table.close(reason)
  }
}
