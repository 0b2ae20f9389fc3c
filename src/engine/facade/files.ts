import { whenLoaded } from '../base/fault.js'
import { formatHash } from '../base/hash.js'
import { checkRequest, parseMode, parseSize } from '../base/input.js'
import type { PageRequest } from '../base/paging.js'
import { StagedContent } from '../cas/staging.js'
import { applyBatch, parseBatch, type BatchOperation } from '../session/batch.js'
import { planSetAttributes } from '../session/attributes.js'
import {
  planCreateDirectory,
  planDelete,
  planRemoveDirectory,
  planRename,
  type CreateDirectoryRequest,
  type DeleteRequest,
  type RenameRequest,
} from '../session/files.js'
import { planCreateSymlink, type CreateSymlinkRequest } from '../session/links.js'
import type { LiveSession } from '../session/live.js'
import { findFile, findSymlink } from '../session/lookup.js'
import { listSymlinks, type SymlinkPage } from '../session/manifest.js'
import type { Plan } from '../session/plan.js'
import { mutate, record } from '../session/transaction.js'
import { planAppend, planWrite, type WriteRequest } from '../session/writes.js'
import type { SessionAccess } from '../session/access.js'

/**
 * A session's files by the operations of the interface: guarded by hashes, in batches, parents made on
 * write. For the shape of node:fs see `session.fs`.
 *
 * Every change is atomic and acknowledged when its promise resolves; changes of a session take effect in
 * the order of the calls. A path is absolute and has no `.`, `..`, NUL or empty part (INVALID_ARGUMENT),
 * names have at most 255 bytes and paths 4,096 (NAME_TOO_LONG). Symlinks are followed inside the session.
 */
export class SessionFiles {
  readonly #access: SessionAccess

  constructor(access: SessionAccess) {
    this.#access = access
  }

  /**
   * Writes a whole file; missing parents are made.
   * HASH_MISMATCH when `expectedHash` does not hold, IS_A_DIRECTORY, NOT_A_DIRECTORY, FILE_TOO_LARGE.
   *
   * @example
   * await session.files.write({ path: '/src/a.ts', content: 'export const a = 1', expectedHash: '' })
   */
  write(request: WriteRequest): Promise<void> {
    return this.#staged(request, (live, copy, staged) => planWrite(this.#access.core, live, copy, staged))
  }

  /**
   * Adds to the end of a file, which is made when it does not exist; costs what is added.
   * HASH_MISMATCH, IS_A_DIRECTORY, NOT_A_DIRECTORY, FILE_TOO_LARGE.
   */
  append(request: WriteRequest): Promise<void> {
    return this.#staged(request, (live, copy, staged) => planAppend(this.#access.core, live, copy, staged))
  }

  /**
   * `length` bytes from `offset` on, fewer at the end of the file; all of it by default. A fresh copy.
   * PATH_NOT_FOUND, IS_A_DIRECTORY.
   */
  async read(request: {
    readonly path: string
    readonly offset?: number
    readonly length?: number
  }): Promise<Uint8Array> {
    checkRequest(request)
    const offset = parseSize('offset', request.offset ?? 0)
    const limit = parseSize('length', request.length ?? Number.MAX_SAFE_INTEGER)
    const { core } = this.#access
    const live = await this.#access.reading()
    return whenLoaded(() => {
      const file = findFile(live, request.path)
      const length = Math.max(0, Math.min(limit, file.size - offset))
      return core.content.read(core.contentIds.body(file), offset, length)
    })
  }

  /**
   * `sha256:<hex>` of the whole content: what `expectedHash` compares. Known at once for a file of one blob
   * (1 MiB); a larger one is read once, in slices. PATH_NOT_FOUND, IS_A_DIRECTORY.
   */
  async contentHash(path: string): Promise<string> {
    const live = await this.#access.reading()
    // The content of the call, however often the file changes while it is hashed.
    const file = await whenLoaded(() => findFile(live, path))
    return formatHash(await whenLoaded(() => this.#access.core.contentIds.contentHash(file)))
  }

  /** A file or symlink. PATH_NOT_FOUND, IS_A_DIRECTORY, HASH_MISMATCH. */
  delete(request: DeleteRequest): Promise<void> {
    return this.#change(request, (live, copy) => planDelete(this.#access.core, live, copy))
  }

  /** ALREADY_EXISTS; PATH_NOT_FOUND when the parent is missing. */
  createDirectory(request: CreateDirectoryRequest): Promise<void> {
    return this.#change(request, (live, copy) => planCreateDirectory(this.#access.core, live, copy))
  }

  /** DIRECTORY_NOT_EMPTY, NOT_A_DIRECTORY, PATH_NOT_FOUND. */
  removeDirectory(request: { readonly path: string }): Promise<void> {
    return this.#change(request, (live, copy) => planRemoveDirectory(live, copy))
  }

  /**
   * As POSIX has it: replaces a file, or an empty directory by a directory; O(1) whatever the size of what
   * is moved. PATH_NOT_FOUND, DIRECTORY_NOT_EMPTY, IS_A_DIRECTORY, NOT_A_DIRECTORY.
   */
  rename(request: RenameRequest): Promise<void> {
    return this.#change(request, (live, copy) => planRename(live, copy))
  }

  /** Permission bits, 0 to 0o7777. PATH_NOT_FOUND. */
  setMode(request: { readonly path: string; readonly mode: number }): Promise<void> {
    return this.#change(request, (live, copy) =>
      planSetAttributes(live, { path: copy.path }, { mode: parseMode(copy.mode) }),
    )
  }

  /** ALREADY_EXISTS; PATH_NOT_FOUND when the parent is missing. The target need not exist. */
  createSymlink(request: CreateSymlinkRequest): Promise<void> {
    return this.#change(request, (live, copy) => planCreateSymlink(this.#access.core, live, copy))
  }

  /** NOT_A_SYMLINK, PATH_NOT_FOUND. */
  async readSymlink(path: string): Promise<{ target: string }> {
    const live = await this.#access.reading()
    return whenLoaded(() => ({ target: findSymlink(live, path).target }))
  }

  /** A page of the symlinks below a literal prefix of the path; the manifest does not list them. */
  async listSymlinks(request?: PageRequest & { readonly pathPrefix?: string }): Promise<SymlinkPage> {
    const live = await this.#access.reading()
    return listSymlinks(this.#access.core, live.tree.freeze(), request)
  }

  /**
   * Carries out writes and deletes in order, later ones seeing earlier ones, as one atomic step: all of
   * them, or with an error none. At most 10,000 (TOO_LARGE); the errors are those of write and delete.
   *
   * @example
   * await session.files.batch([{ write: { path: '/b', content } }, { delete: { path: '/a', expectedHash } }])
   */
  batch(operations: readonly BatchOperation[]): Promise<void> {
    const { core } = this.#access
    try {
      const steps = parseBatch(core, operations)
      return this.#access.run((live) => applyBatch(core, live, steps))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #staged(
    request: WriteRequest,
    plan: (live: LiveSession, copy: WriteRequest, staged: StagedContent) => Plan,
  ): Promise<void> {
    try {
      checkRequest(request)
      const staged = new StagedContent(request.content, this.#access.core)
      return this.#change({ ...request, content: '' }, (live, copy) => plan(live, copy, staged))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** The request is read at the call: it may take effect later, when the caller has changed it. */
  #change<T extends object>(request: T, plan: (live: LiveSession, copy: T) => Plan): Promise<void> {
    const { core } = this.#access
    try {
      checkRequest(request)
      const copy = { ...request }
      return this.#access.run((live) => mutate(core, live, () => record(core, live, plan(live, copy))))
    } catch (error) {
      return Promise.reject(error)
    }
  }
}
