import { whenLoaded } from '../base/fault.js'
import { formatHash } from '../base/hash.js'
import { isAsyncIterable, parseFlag, parseMode } from '../base/input.js'
import { Shape, type CopyOf } from '../base/shape.js'
import type { Action } from '../operations/index.js'
import { StagedContent } from '../cas/staging.js'
import {
  Batch,
  SegmentPatch,
  type BatchOperation,
  type PatchSegmentsRequest,
} from '../session/edits/batch.js'
import { eventTypes } from '../records/event.js'
import {
  planSetAttributes,
  setAttributesShape,
  setModeShape,
  type SetAttributesRequest,
} from '../session/edits/attributes.js'
import { copyFileShape, planCopyFile, type CopyFileRequest } from '../session/edits/copies.js'
import {
  directoryListShape,
  listDirectory,
  type DirectoryListRequest,
  type DirectoryPage,
} from '../session/reads/directory.js'
import { deleteShape, planDelete, type DeleteRequest } from '../session/edits/delete.js'
import {
  createDirectoryShape,
  planCreateDirectory,
  planRemoveDirectory,
  removeDirectoryShape,
  type CreateDirectoryRequest,
  type RemoveDirectoryRequest,
} from '../session/edits/directories.js'
import { planRename, renameShape, type RenameRequest } from '../session/edits/rename.js'
import {
  createSymlinkShape,
  linkShape,
  planCreateSymlink,
  planLink,
  type CreateSymlinkRequest,
  type LinkRequest,
} from '../session/edits/links.js'
import type { LiveSession } from '../session/table/live.js'
import { findFile, findSymlink } from '../session/reads/lookup.js'
import {
  parseRead,
  streamContent,
  type ContentStream,
  type FileReadRequest,
} from '../session/reads/content-stream.js'
import { noContent, storeStream } from '../session/edits/streamed-content.js'
import { listCasExtents, type CasExtent } from '../session/reads/extents.js'
import {
  listSymlinks,
  symlinkListShape,
  type SymlinkListRequest,
  type SymlinkPage,
} from '../session/reads/manifest.js'
import type { Plan } from '../session/edits/plan.js'
import { lookInOrder, mutate, record } from '../session/mutation-queue.js'
import { parseStat, statPath, type PathStat, type StatRequest } from '../session/reads/stat.js'
import {
  appendShape,
  fileWriteShape,
  parseWriteOptions,
  planAppend,
  planWrite,
  type ContentToWrite,
  type FileReplaceRequest,
  type FileWriteRequest,
} from '../session/edits/writes.js'
import type { SessionAccess } from '../session/access/session-access.js'
import { FileNode } from '../tree/node.js'
import {
  findXattrAt,
  listXattrs,
  parseXattrValue,
  planRemoveXattr,
  planSetXattr,
  setXattrShape,
  xattrShape,
  type SetXattrRequest,
  type XattrRequest,
} from '../session/edits/xattrs.js'

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
   * HASH_MISMATCH when `expectedHash` does not hold, ALREADY_EXISTS with `exclusive`, IS_A_DIRECTORY,
   * NOT_A_DIRECTORY, FILE_TOO_LARGE; PATH_NOT_FOUND for a missing parent when `createParents` is false.
   *
   * @example
   * await session.files.write({ path: '/src/a.ts', content: 'export const a = 1', expectedHash: '' })
   */
  write(request: FileReplaceRequest): Promise<void> {
    const { core } = this.#access
    try {
      const copy = fileWriteShape.read(request)
      const { content } = copy
      // The caller's bytes are no longer held.
      copy.content = ''
      const options = parseWriteOptions(copy)
      const plan = (live: LiveSession, staged: ContentToWrite): Plan =>
        planWrite(core, live, copy, staged, options)
      if (isAsyncIterable('content', content)) return this.#writeStream(content, plan)
      const staged = new StagedContent(content, core)
      return this.#run('writeFile', (live) => plan(live, staged))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #writeStream(
    content: AsyncIterable<Uint8Array>,
    plan: (live: LiveSession, staged: ContentToWrite) => Plan,
  ): Promise<void> {
    const { core } = this.#access
    return this.#access.run('writeFile', async (live) => {
      // A write that cannot succeed fails before a piece is read.
      await lookInOrder(live, () => plan(live, noContent))
      using _ = core.pins.pin({ writesSince: 'now' })
      const staged = await storeStream(core, content)
      // The session may have left memory meanwhile.
      const current = await this.#access.live('writeFile')
      await mutate(core, current, () => record(core, current, plan(current, staged)))
    })
  }

  /**
   * Appends to a file, which is created when it does not exist; the cost is that of the added bytes.
   * HASH_MISMATCH, IS_A_DIRECTORY, NOT_A_DIRECTORY, FILE_TOO_LARGE; PATH_NOT_FOUND as for {@link write}.
   */
  append(request: FileWriteRequest): Promise<void> {
    return this.#staged('appendFile', appendShape, request, (live, copy, staged) => {
      const options = parseWriteOptions(copy)
      return planAppend(this.#access.core, live, copy, staged, options)
    })
  }

  /**
   * Copies content and mode of a file to another, which is created or replaced; both share the content until one is
   * changed: O(1). PATH_NOT_FOUND, ALREADY_EXISTS with `exclusive`, IS_A_DIRECTORY, NOT_A_DIRECTORY.
   */
  copy(request: CopyFileRequest): Promise<void> {
    return this.#change('copyFile', copyFileShape, request, (live, copy) => {
      const exclusive = parseFlag('exclusive', copy.exclusive, false)
      return planCopyFile(this.#access.core, live, { ...copy, exclusive })
    })
  }

  /**
   * `length` bytes from `offset` on, fewer at the end of the file; all of it by default. A fresh copy.
   * PATH_NOT_FOUND, IS_A_DIRECTORY.
   */
  async read(request: FileReadRequest): Promise<Uint8Array> {
    const part = parseRead(request)
    return this.#access.look('readFile', (live) =>
      whenLoaded(() => this.#readPart(findFile(live, part.path), part)),
    )
  }

  /**
   * Reads as {@link read} does, in pieces: in little memory, for a file of any size. The bytes are those that the file has
   * when the promise resolves. PATH_NOT_FOUND, IS_A_DIRECTORY.
   *
   * @example
   * const stream = await session.files.readStream({ path: '/large.bin' })
   * await pipeline(stream, createWriteStream('/tmp/large.bin'))
   */
  async readStream(request: FileReadRequest): Promise<ContentStream> {
    const part = parseRead(request)
    return this.#access.look('readFile', (live) =>
      whenLoaded(() => streamContent(this.#access.core, findFile(live, part.path), part)),
    )
  }

  /** As {@link read}, with hash and size of the whole content that the bytes are of. */
  async readWithHash(
    request: FileReadRequest,
  ): Promise<{ content: Uint8Array; contentHash: string; sizeBytes: number }> {
    const part = parseRead(request)
    return this.#access.look('readFile', async (live) => {
      // The content of the call, however often the file changes while it is hashed.
      const file = await whenLoaded(() => findFile(live, part.path))
      const content = await whenLoaded(() => this.#readPart(file, part))
      const contentHash = formatHash(await whenLoaded(() => this.#access.core.contentIds.contentHash(file)))
      return { content, contentHash, sizeBytes: file.size }
    })
  }

  /**
   * `sha256:<hex>` of the whole content: what `expectedHash` compares. Known at once for a file of one blob
   * (1 MiB); a larger one is read once, in slices. PATH_NOT_FOUND, IS_A_DIRECTORY.
   */
  async contentHash(path: string): Promise<string> {
    return this.#access.look('contentHash', async (live) => {
      // The content of the call, however often the file changes while it is hashed.
      const file = await whenLoaded(() => findFile(live, path))
      return formatHash(await whenLoaded(() => this.#access.core.contentIds.contentHash(file)))
    })
  }

  /** The attributes of the node at a path, followed through symlinks or not. PATH_NOT_FOUND. */
  async stat(request: StatRequest): Promise<PathStat> {
    const parsed = parseStat(request)
    return this.#access.look('statPath', async (live) => {
      const { node, stat } = await whenLoaded(() => statPath(live, parsed))
      if (!parsed.includeContentHash || !(node instanceof FileNode)) return stat
      const hash = await whenLoaded(() => this.#access.core.contentIds.contentHash(node))
      return { ...stat, contentHash: formatHash(hash) }
    })
  }

  /** A page of the entries of a directory, or with `recursive` of all below it. NOT_A_DIRECTORY, PATH_NOT_FOUND. */
  async list(request: DirectoryListRequest): Promise<DirectoryPage> {
    const copy = directoryListShape.read(request)
    return this.#access.look('listDirectory', (live) => listDirectory(this.#access.core, live, copy))
  }

  /** A file or symlink. PATH_NOT_FOUND, IS_A_DIRECTORY, HASH_MISMATCH. */
  delete(request: DeleteRequest): Promise<void> {
    return this.#change('deleteFile', deleteShape, request, (live, copy) =>
      planDelete(this.#access.core, live, copy),
    )
  }

  /** ALREADY_EXISTS, and PATH_NOT_FOUND when the parent is missing, but with `recursive`. */
  createDirectory(request: CreateDirectoryRequest): Promise<void> {
    return this.#change('createDirectory', createDirectoryShape, request, (live, copy) =>
      planCreateDirectory(this.#access.core, live, copy, parseFlag('recursive', copy.recursive, false)),
    )
  }

  /** DIRECTORY_NOT_EMPTY, but with `recursive`; NOT_A_DIRECTORY, PATH_NOT_FOUND. */
  removeDirectory(request: RemoveDirectoryRequest): Promise<void> {
    return this.#change('removeDirectory', removeDirectoryShape, request, (live, copy) =>
      planRemoveDirectory(live, copy, parseFlag('recursive', copy.recursive, false)),
    )
  }

  /**
   * As POSIX has it: replaces a file, or an empty directory by a directory; O(1) for a node of any size.
   * PATH_NOT_FOUND, DIRECTORY_NOT_EMPTY, IS_A_DIRECTORY, NOT_A_DIRECTORY.
   */
  rename(request: RenameRequest): Promise<void> {
    return this.#change('rename', renameShape, request, (live, copy) => planRename(live, copy))
  }

  /** Permission bits, 0 to 0o7777. PATH_NOT_FOUND. */
  setMode(request: { readonly path: string; readonly mode: number }): Promise<void> {
    return this.#change('setAttributes', setModeShape, request, (live, copy) =>
      planSetAttributes(live, { path: copy.path }, { mode: parseMode(copy.mode) }),
    )
  }

  /** Permission bits, the time of the last change, or both. PATH_NOT_FOUND. */
  setAttributes(request: SetAttributesRequest): Promise<void> {
    return this.#change(
      'setAttributes',
      setAttributesShape,
      request,
      (live, { path, followSymlinks, mode, mtimeMs }) =>
        planSetAttributes(
          live,
          { path, followLast: parseFlag('followSymlinks', followSymlinks, true) },
          { ...(mode !== undefined && { mode }), ...(mtimeMs !== undefined && { mtime: mtimeMs }) },
        ),
    )
  }

  /** ALREADY_EXISTS; PATH_NOT_FOUND when the parent is missing. The target need not exist. */
  createSymlink(request: CreateSymlinkRequest): Promise<void> {
    return this.#change('createSymlink', createSymlinkShape, request, (live, copy) =>
      planCreateSymlink(this.#access.core, live, copy),
    )
  }

  /** NOT_A_SYMLINK, PATH_NOT_FOUND. */
  async readSymlink(path: string): Promise<{ target: string }> {
    return this.#access.look('readSymlink', (live) =>
      whenLoaded(() => ({ target: findSymlink(live, path).target })),
    )
  }

  /** A page of the symlinks below a literal prefix of the path; the manifest does not list them. */
  async listSymlinks(request: SymlinkListRequest = {}): Promise<SymlinkPage> {
    const copy = symlinkListShape.read(request)
    return this.#access.look('listSymlinks', ({ tree }) =>
      listSymlinks(this.#access.core, tree.freeze(), copy),
    )
  }

  /**
   * Carries out writes, deletes and segment writes in order, later ones seeing earlier ones, as one atomic step: all of
   * them, or with an error none. At most 10,000 (TOO_LARGE); the errors are those of write, delete and
   * patchSegments.
   *
   * @example
   * await session.files.batch([{ write: { path: '/b', content } }, { delete: { path: '/a', expectedHash } }])
   */
  batch(operations: readonly BatchOperation[]): Promise<void> {
    const { core } = this.#access
    try {
      const batch = new Batch(core, operations)
      return this.#access.run('applyBatch', (live) => {
        if (batch.borrows) this.#access.permitWhen('applyBatch', 'borrowed')
        return batch.apply(core, live)
      })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Changes ranges of files, as one atomic step: data, holes, and ranges borrowed from content that the
   * session or its base has. The cost depends on the changed ranges, not on the size of the file. With SKIP_ON_CONFLICT files
   * whose `expectedHash` does not hold are left out and named in the result. The hash of a file of several
   * blobs takes one pass over it when it is next asked for.
   * HASH_MISMATCH, BLOB_NOT_FOUND, IS_A_DIRECTORY, FILE_TOO_LARGE; TOO_LARGE for over 100,000 chunks;
   * INVALID_ARGUMENT for a chunk that ends after `logicalSize`.
   *
   * @example
   * const data = { offset: 4096, content: new Uint8Array(4096) }
   * await session.files.patchSegments({ mutations: [{ path: '/disk.img', segments: [{ data }] }] })
   */
  async patchSegments(request: PatchSegmentsRequest): Promise<{ skippedPaths: string[] }> {
    const { core } = this.#access
    const patch = new SegmentPatch(core, request)
    return this.#access.run('patchSegments', (live) => {
      if (patch.borrows) this.#access.permitWhen('patchSegments', 'borrowed')
      return patch.apply(core, live)
    })
  }

  /** The blobs that hold a file's bytes, in order; gaps between them are holes. PATH_NOT_FOUND, IS_A_DIRECTORY. */
  async getCasExtents(request: { readonly path: string }): Promise<{ extents: CasExtent[] }> {
    const { path } = pathShape.read(request)
    return this.#access.look('getCasExtents', async (live) => {
      // The file of the call, however often it changes while its blobs are hashed.
      const file = await whenLoaded(() => findFile(live, path))
      return { extents: await listCasExtents(this.#access.core, file) }
    })
  }

  /**
   * A further name for a file: content, mode, attributes and locks are the same under each of its names.
   * PATH_NOT_FOUND, ALREADY_EXISTS, NOT_PERMITTED for a directory.
   */
  link(request: LinkRequest): Promise<void> {
    return this.#change('createHardLink', linkShape, request, (live, copy) => planLink(live, copy))
  }

  /** Removes a name: the file is deleted with its last one. PATH_NOT_FOUND, IS_A_DIRECTORY, HASH_MISMATCH. */
  unlink(request: DeleteRequest): Promise<void> {
    return this.#change('unlink', deleteShape, request, (live, copy) =>
      planDelete(this.#access.core, live, copy, eventTypes.unlink),
    )
  }

  /** Of a file or directory; symlinks are followed. PATH_NOT_FOUND; TOO_LARGE for a value over 64 KiB or a name over 255 bytes. */
  setXattr(request: SetXattrRequest): Promise<void> {
    try {
      const copy = setXattrShape.read(request)
      const value = parseXattrValue(copy.value)
      return this.#run('setXattr', (live) => planSetXattr(live, copy, value))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** PATH_NOT_FOUND, XATTR_NOT_FOUND. */
  async getXattr(request: XattrRequest): Promise<{ value: Uint8Array }> {
    const copy = xattrShape.read(request)
    return this.#access.look('getXattr', async (live) => {
      const { value } = await whenLoaded(() => findXattrAt(live, copy))
      return { value: await this.#access.core.content.read(value, 0, value.length) }
    })
  }

  /** In the order of the names' code units. PATH_NOT_FOUND. */
  async listXattrs(request: { readonly path: string }): Promise<{ names: string[] }> {
    const { path } = pathShape.read(request)
    return this.#access.look('listXattrs', (live) => whenLoaded(() => ({ names: listXattrs(live, path) })))
  }

  /** PATH_NOT_FOUND, XATTR_NOT_FOUND. */
  removeXattr(request: XattrRequest): Promise<void> {
    return this.#change('removeXattr', xattrShape, request, (live, copy) => planRemoveXattr(live, copy))
  }

  #readPart(file: FileNode, { offset, length }: Required<FileReadRequest>): Promise<Uint8Array> {
    const { content, contentIds } = this.#access.core
    const count = Math.max(0, Math.min(length, file.size - offset))
    return content.read(contentIds.body(file), offset, count)
  }

  #staged<T extends FileWriteRequest>(
    action: Action,
    shape: Shape<T>,
    request: T,
    plan: (live: LiveSession, copy: CopyOf<T>, staged: StagedContent) => Plan,
  ): Promise<void> {
    try {
      const copy = shape.read(request)
      const staged = new StagedContent(copy.content, this.#access.core)
      // The caller's bytes are no longer held.
      copy.content = ''
      return this.#run(action, (live) => plan(live, copy, staged))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Copies the request at the call: the operation may run later, after the caller has changed it. */
  #change<T extends object>(
    action: Action,
    shape: Shape<T>,
    request: T,
    plan: (live: LiveSession, copy: CopyOf<T>) => Plan,
  ): Promise<void> {
    try {
      const copy = shape.read(request)
      return this.#run(action, (live) => plan(live, copy))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #run(action: Action, plan: (live: LiveSession) => Plan): Promise<void> {
    const { core } = this.#access
    return this.#access.run(action, (live) => mutate(core, live, () => record(core, live, plan(live))))
  }
}

const pathShape = new Shape<{ readonly path: string }>({ path: true })
