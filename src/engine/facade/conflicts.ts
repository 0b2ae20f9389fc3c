import type { PageRequest } from '../base/paging.js'
import type { SessionAccess } from '../session/access/session-access.js'
import type { ConflictContents } from '../services/merge/conflict-sides.js'
import {
  conflictListShape,
  parseConflictRead,
  parseResolve,
  parseResolveAll,
  type ConflictReadRequest,
  type ConflictResolveAllRequest,
  type ConflictResolveRequest,
} from '../services/merge/merge-requests.js'
import type { ConflictPage, Merges } from '../services/merge/merges.js'

/** The unresolved conflicts of a merge or rebase. While there are any, the status of the session is `CONFLICT`. */
export class SessionConflicts {
  readonly #access: SessionAccess
  readonly #service: Merges

  /** @internal */
  constructor(access: SessionAccess, service: Merges) {
    this.#access = access
    this.#service = service
  }

  /**
   * A page of the unresolved conflicts, in order of their paths.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { conflicts } = await session.conflicts.list()
   * for (const { path, kind } of conflicts) console.log(kind, path)
   */
  async list(request: PageRequest = {}): Promise<ConflictPage> {
    const copy = conflictListShape.read(request)
    return this.#access.look('listConflicts', (live) => this.#service.list(this.#access.core, live, copy))
  }

  /**
   * The contents of the three sides of a conflict, and the lines that both sides changed.
   *
   * @throws {EngineError} CONFLICT_NOT_FOUND when the session has no unresolved conflict at this path.
   * @throws {EngineError} TOO_LARGE when a side is over 64 MiB.
   *
   * @example
   * const { conflicts } = await session.conflicts.list()
   * for (const { path } of conflicts) {
   *   const { hunks } = await session.conflicts.read({ path })
   *   console.log(path, hunks)
   * }
   */
  async read(request: ConflictReadRequest): Promise<ConflictContents> {
    const path = parseConflictRead(request)
    return this.#access.look('readConflict', (live) => this.#service.read(this.#access.core, live, path))
  }

  /**
   * Resolves a conflict with the file of one side, with new content, or by a deletion. It is one event. A file with new
   * content keeps its permission bits.
   *
   * @throws {EngineError} CONFLICT_NOT_FOUND when the session has no unresolved conflict at this path.
   * @throws {EngineError} NOT_A_DIRECTORY when a parent of the path is a file now.
   * @throws {EngineError} ALREADY_EXISTS or DIRECTORY_NOT_EMPTY when `use` is `'base'`, and a file without a conflict is where the
   * base was.
   * @throws {EngineError} MERGE_TARGET_MOVED when the session kept changing meanwhile.
   *
   * @example
   * const { conflicts } = await session.conflicts.list()
   * for (const { path } of conflicts) await session.conflicts.resolve({ path, use: 'theirs' })
   */
  async resolve(request: ConflictResolveRequest): Promise<{
    /** The number of conflicts that are left. 0: the merge is complete. */
    conflictCount: number
  }> {
    const resolution = parseResolve(request)
    return this.#access.run('resolveConflict', (live) =>
      this.#access.whileUsed(this.#service.resolve(this.#access.core, live, resolution)),
    )
  }

  /**
   * Resolves all conflicts with the files of one side, as one event. Without conflicts, nothing happens.
   *
   * @throws {EngineError} NOT_A_DIRECTORY when a parent of a path is a file now.
   * @throws {EngineError} ALREADY_EXISTS or DIRECTORY_NOT_EMPTY when `use` is `'base'`, and a file without a conflict is where the
   * base of another one was.
   * @throws {EngineError} MERGE_TARGET_MOVED when the session kept changing meanwhile.
   *
   * @example
   * await session.conflicts.resolveAll({ use: 'ours' })
   */
  async resolveAll(request: ConflictResolveAllRequest): Promise<{
    /** The number of conflicts that are left: 0. */
    conflictCount: number
  }> {
    const use = parseResolveAll(request)
    return this.#access.run('resolveConflicts', (live) =>
      this.#access.whileUsed(this.#service.resolveAll(this.#access.core, live, use)),
    )
  }

  /**
   * Restores the files from before the merge or rebase, as one event. Changes of files since then are undone too. After
   * a rebase, the session has its old base again.
   *
   * @throws {EngineError} CONFLICT_NOT_FOUND when the session has no unresolved conflicts.
   *
   * @example
   * const { conflicts } = await session.conflicts.list()
   * if (conflicts.length > 0) await session.conflicts.abort()
   */
  abort(): Promise<void> {
    return this.#access.run('abortMerge', (live) => this.#service.abort(this.#access.core, live))
  }
}
