import { EngineError } from '../base/errors.js'
import { whenLoaded } from '../base/fault.js'
import { sessionNotFound, type Core } from '../session/core.js'
import type { LiveSession } from '../session/live.js'
import { notFound, resolve } from '../session/resolve.js'
import { mutate } from '../session/transaction.js'
import { showLock, type Owner, type ParsedLock, type ParsedUnlock, type PosixLock } from './lock-requests.js'
import { LockTable } from './lock-table.js'

/** Tells when a file is gone. */
export interface FileHolds {
  /**
   * Watches a file of a session, whatever it is renamed to. `onGone` is called once, when its last name is
   * gone; the watching ends then, or with a call of the function returned. `path` is where the file was found
   * last, without symlinks; after its session was read again from the store it may be elsewhere by now.
   */
  hold(live: LiveSession, path: string, ino: number, onGone: () => void): () => void
}

/** What `get` says. */
export interface PosixLockConflict {
  readonly hasConflict: boolean
  /** What stands in the way: of the locks that are held the first, else one that is waited for. */
  readonly conflict?: PosixLock
}

interface Hold {
  path: string
  release: () => void
}

/** A session's locks; there from the first lock to the last. */
interface SessionLocks {
  /** Whom the holds are with. */
  live: LiveSession
  readonly table: LockTable<Owner>
  /** By inode number; exactly the files that the table uses. */
  readonly holds: Map<number, Hold>
}

/**
 * Advisory locks on files and directories, in memory only. They belong to a file, not to a name: they follow
 * it when it is renamed, and are gone with it. They outlive a restore, a commit, and a session that is read
 * again from the store; a fork starts without any.
 *
 * Requests take effect in the order of the calls, among the session's changes.
 */
export class PosixLocks {
  readonly #core: Core
  readonly #holds: FileHolds
  readonly #sessions = new Map<string, SessionLocks>()
  #closed = false

  constructor(core: Core, holds: FileHolds) {
    this.#core = core
    this.#holds = holds
  }

  async get(live: LiveSession, lock: ParsedLock): Promise<PosixLockConflict> {
    return whenLoaded(() => {
      const { ino } = this.#find(live, lock.path)
      const conflict = this.#sessions.get(live.id)?.table.conflict({ ...lock, file: ino })
      if (conflict === undefined) return { hasConflict: false }
      return { hasConflict: true, conflict: showLock(conflict, lock.space === 'whole') }
    })
  }

  /** LOCK_HELD, DEADLOCK, QUOTA, PATH_NOT_FOUND. A lock that is waited for is had when the promise resolves. */
  set(
    live: LiveSession,
    lock: ParsedLock,
    wait: { readonly signal: AbortSignal | undefined } | false,
  ): Promise<void> {
    return mutate(this.#core, live, () => {
      const { path, ino } = this.#find(live, lock.path)
      const request = { ...lock, file: ino }
      const session = this.#session(live)
      try {
        if (wait !== false) return session.table.wait(request, wait.signal)
        session.table.set(request)
        return Promise.resolve()
      } finally {
        this.#settle(session, ino, path)
      }
    })
  }

  release(live: LiveSession, lock: ParsedUnlock): Promise<void> {
    return mutate(this.#core, live, () => {
      const { path, ino } = this.#find(live, lock.path)
      const session = this.#session(live)
      try {
        session.table.release({ ...lock, file: ino })
        return Promise.resolve()
      } finally {
        this.#settle(session, ino, path)
      }
    })
  }

  /** The session was deleted: its locks are gone and its waiters rejected. */
  forget(sessionId: string): void {
    this.#end(sessionId, () => sessionNotFound(sessionId))
  }

  /** Rejects all waiters, and whatever comes later. */
  close(): void {
    this.#closed = true
    for (const sessionId of this.#sessions.keys()) this.#end(sessionId, closed)
  }

  #find(live: LiveSession, path: string): { path: string; ino: number } {
    if (this.#closed) throw closed()
    const found = resolve(live.tree, path, true)
    if (found.node === undefined) throw notFound(path)
    return { path: found.path, ino: found.node.ino }
  }

  #session(live: LiveSession): SessionLocks {
    let session = this.#sessions.get(live.id)
    if (session === undefined) {
      const holds = new Map<number, Hold>()
      const table = new LockTable<Owner>((ino) => {
        // A file that was locked and unlocked in one step has no hold.
        holds.get(ino)?.release()
        holds.delete(ino)
        if (table.empty) this.#sessions.delete(live.id)
      })
      session = { live, table, holds }
      this.#sessions.set(live.id, session)
    }
    if (session.live !== live) {
      session.live = live
      for (const [ino, hold] of session.holds) {
        hold.release()
        hold.release = this.#hold(session, hold.path, ino)
      }
    }
    return session
  }

  /** Holds a file that has locks or waiters, and knows where it was found last. */
  #settle(session: SessionLocks, ino: number, path: string): void {
    if (session.table.empty) this.#sessions.delete(session.live.id)
    if (!session.table.uses(ino)) return
    const hold = session.holds.get(ino)
    if (hold === undefined) session.holds.set(ino, { path, release: this.#hold(session, path, ino) })
    else hold.path = path
  }

  #hold(session: SessionLocks, path: string, ino: number): () => void {
    return this.#holds.hold(session.live, path, ino, () => {
      const { table, holds } = session
      const last = holds.get(ino)?.path ?? path
      holds.delete(ino)
      table.drop(ino, () => notFound(last))
      if (table.empty) this.#sessions.delete(session.live.id)
    })
  }

  #end(sessionId: string, reason: () => EngineError): void {
    const session = this.#sessions.get(sessionId)
    if (session === undefined) return
    this.#sessions.delete(sessionId)
    for (const { release } of session.holds.values()) release()
    session.holds.clear()
    session.table.close(reason)
  }
}

function closed(): EngineError {
  return new EngineError('STORE_CLOSED', 'the engine was closed')
}
