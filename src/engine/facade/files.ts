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
import { lossCheck } from '../storage/loss-check.js'
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
 * The files of a session by the operations of the interface: with conditions by hashes, in batches, and with parents
 * created on write. For the shape of `node:fs` see `session.fs`.
 *
 * Every change is atomic and acknowledged when its promise resolves. Changes of a session take effect in the order of
 * the calls. Symlinks are followed inside the session.
 *
 * A path is absolute and has no `.`, `..`, NUL or empty part; others fail with INVALID_ARGUMENT. Names have at most
 * 255 bytes and paths 4,096 bytes and 256 levels; longer ones fail with NAME_TOO_LONG. A path with a file as a parent
 * fails with NOT_A_DIRECTORY, and one that needs over 40 symlinks with SYMLINK_LOOP. A change over a byte budget of
 * the engine fails with BUDGET.
 */
export class SessionFiles {
  readonly #access: SessionAccess

  /** @internal */
  constructor(access: SessionAccess) {
    this.#access = access
  }

  /**
   * Writes a whole file. Missing parents are created.
   *
   * @throws {EngineError} HASH_MISMATCH when the content does not have the `expectedHash`.
   * @throws {EngineError} ALREADY_EXISTS when the path exists, with `exclusive`.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} PATH_NOT_FOUND when a parent is missing and `createParents` is false.
   * @throws {EngineError} FILE_TOO_LARGE when the content is over `maxFileBytes`.
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
      const checkLosses = lossCheck(core.store)
      const staged = await this.#access.whileUsed((ended) => storeStream(core, live, content, ended))
      // The session may have left memory meanwhile.
      const current = await this.#access.live('writeFile')
      await mutate(core, current, () => {
        const planned = plan(current, staged)
        checkLosses()
        return record(core, current, planned)
      })
    })
  }

  /**
   * Appends to a file, and creates a missing one with its parents. The cost is that of the added bytes.
   *
   * @throws {EngineError} HASH_MISMATCH when the content does not have the `expectedHash`.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} PATH_NOT_FOUND when a parent is missing and `createParents` is false.
   * @throws {EngineError} FILE_TOO_LARGE when the file would be over `maxFileBytes`.
   *
   * @example
   * await session.files.append({ path: '/log.txt', content: 'one more line\n' })
   */
  append(request: FileWriteRequest): Promise<void> {
    return this.#staged('appendFile', appendShape, request, (live, copy, staged) => {
      const options = parseWriteOptions(copy)
      return planAppend(this.#access.core, live, copy, staged, options)
    })
  }

  /**
   * Copies content and permission bits of a file to another, which is created or replaced. Both share the content
   * until one of them changes, so the cost does not depend on its size.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the source does not exist, or the parent of the destination without
   * `createParents`.
   * @throws {EngineError} ALREADY_EXISTS when the destination exists, with `exclusive`.
   * @throws {EngineError} ALREADY_EXISTS when the destination exists, with `exclusive`.
   * @throws {EngineError} IS_A_DIRECTORY when one of the paths is a directory.
   *
   * @example
   * await session.files.copy({ sourcePath: '/src/a.ts', destinationPath: '/src/b.ts' })
   */
  copy(request: CopyFileRequest): Promise<void> {
    return this.#change('copyFile', copyFileShape, request, (live, copy) => {
      const exclusive = parseFlag('exclusive', copy.exclusive, false)
      return planCopyFile(this.#access.core, live, { ...copy, exclusive })
    })
  }

  /**
   * Reads a file: `length` bytes from `offset`, fewer at the end of the file; by default all of it. The result is a
   * copy.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} TOO_LARGE when the range is over 2 GiB − 1 bytes: use {@link readStream}.
   *
   * @example
   * const text = new TextDecoder().decode(await session.files.read({ path: '/src/a.ts' }))
   */
  async read(request: FileReadRequest): Promise<Uint8Array> {
    const part = parseRead(request)
    return this.#access.look('readFile', (live) =>
      whenLoaded(() => this.#readPart(findFile(live, part.path), part)),
    )
  }

  /**
   * Reads a file in pieces, in little memory for any size. The bytes are those of the file when the promise resolves,
   * also when the file changes later.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   *
   * @example
   * const stream = await session.files.readStream({ path: '/large.bin' })
   * for await (const piece of stream) console.log(piece.byteLength, 'of', stream.length)
   */
  async readStream(request: FileReadRequest): Promise<ContentStream> {
    const part = parseRead(request)
    return this.#access.look('readFile', (live) =>
      whenLoaded(() => streamContent(this.#access.core, findFile(live, part.path), part)),
    )
  }

  /**
   * Reads like {@link read}, and returns hash and size of the whole content too. All three are of one moment.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} TOO_LARGE when the range is over 2 GiB − 1 bytes: use {@link readStream}.
   *
   * @example
   * const { contentHash } = await session.files.readWithHash({ path: '/src/a.ts', length: 0 })
   * await session.files.write({ path: '/src/a.ts', content: 'new', expectedHash: contentHash })
   */
  async readWithHash(request: FileReadRequest): Promise<{
    /** The bytes of the range, as a copy. */
    content: Uint8Array
    /** `sha256:<hex>` of the whole content. */
    contentHash: string
    /** The size of the whole file, in bytes. */
    sizeBytes: number
  }> {
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
   * `sha256:<hex>` of the whole content: the value for `expectedHash`. It is known at once for a file up to 1 MiB that was
   * stored whole. Any other file is read once, in slices.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   *
   * @example
   * const expectedHash = await session.files.contentHash('/src/a.ts')
   */
  async contentHash(path: string): Promise<string> {
    return this.#access.look('contentHash', async (live) => {
      // The content of the call, however often the file changes while it is hashed.
      const file = await whenLoaded(() => findFile(live, path))
      return formatHash(await whenLoaded(() => this.#access.core.contentIds.contentHash(file)))
    })
  }

  /**
   * The attributes of the file, directory or symlink at a path.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   *
   * @example
   * const { kind, sizeBytes, mtimeMs } = await session.files.stat({ path: '/src/a.ts' })
   */
  async stat(request: StatRequest): Promise<PathStat> {
    const parsed = parseStat(request)
    return this.#access.look('statPath', async (live) => {
      const { node, stat } = await whenLoaded(() => statPath(live, parsed))
      if (!parsed.includeContentHash || !(node instanceof FileNode)) return stat
      const hash = await whenLoaded(() => this.#access.core.contentIds.contentHash(node))
      return { ...stat, contentHash: formatHash(hash) }
    })
  }

  /**
   * A page of the entries of a directory, or with `recursive` of everything below it.
   *
   * @throws {EngineError} NOT_A_DIRECTORY when the path is not a directory.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { entries, nextPageToken } = await session.files.list({ path: '/src', recursive: true })
   */
  async list(request: DirectoryListRequest): Promise<DirectoryPage> {
    const copy = directoryListShape.read(request)
    return this.#access.look('listDirectory', (live) => listDirectory(this.#access.core, live, copy))
  }

  /**
   * Deletes a file or symlink.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory: use `removeDirectory`.
   * @throws {EngineError} HASH_MISMATCH when the content does not have the `expectedHash`.
   *
   * @example
   * await session.files.delete({ path: '/src/a.ts' })
   */
  delete(request: DeleteRequest): Promise<void> {
    return this.#change('deleteFile', deleteShape, request, (live, copy) =>
      planDelete(this.#access.core, live, copy),
    )
  }

  /**
   * Creates a directory.
   *
   * @throws {EngineError} ALREADY_EXISTS when the path exists; with `recursive`, when it is not a directory.
   * @throws {EngineError} PATH_NOT_FOUND when a parent is missing, without `recursive`.
   *
   * @example
   * await session.files.createDirectory({ path: '/src/lib', recursive: true })
   */
  createDirectory(request: CreateDirectoryRequest): Promise<void> {
    return this.#change('createDirectory', createDirectoryShape, request, (live, copy) =>
      planCreateDirectory(this.#access.core, live, copy, parseFlag('recursive', copy.recursive, false)),
    )
  }

  /**
   * Removes a directory.
   *
   * @throws {EngineError} DIRECTORY_NOT_EMPTY when it has entries, without `recursive`.
   * @throws {EngineError} NOT_A_DIRECTORY when the path is not a directory.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} INVALID_ARGUMENT when the path is `/`.
   *
   * @example
   * await session.files.removeDirectory({ path: '/src/lib', recursive: true })
   */
  removeDirectory(request: RemoveDirectoryRequest): Promise<void> {
    return this.#change('removeDirectory', removeDirectoryShape, request, (live, copy) =>
      planRemoveDirectory(live, copy, parseFlag('recursive', copy.recursive, false)),
    )
  }

  /**
   * Moves a file, directory or symlink, like `rename` of POSIX. It replaces a file at the destination, or an empty
   * directory by a directory. The cost does not depend on the size.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the source, or the parent of the destination, does not exist.
   * @throws {EngineError} DIRECTORY_NOT_EMPTY when the destination is a directory with entries.
   * @throws {EngineError} IS_A_DIRECTORY when the destination is a directory and the source is not.
   * @throws {EngineError} NOT_A_DIRECTORY when the source is a directory and the destination exists but is not.
   * @throws {EngineError} INVALID_ARGUMENT when a directory would move into itself, or the source is `/`.
   *
   * @example
   * await session.files.rename({ sourcePath: '/src/a.ts', destinationPath: '/src/b.ts' })
   */
  rename(request: RenameRequest): Promise<void> {
    return this.#change('rename', renameShape, request, (live, copy) =>
      planRename(this.#access.core, live, {
        ...copy,
        exclusive: parseFlag('exclusive', copy.exclusive, false),
        createParents: parseFlag('createParents', copy.createParents, false),
      }),
    )
  }

  /**
   * Sets the permission bits of a file or directory.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   *
   * @example
   * await session.files.setMode({ path: '/bin/run.sh', mode: 0o755 })
   */
  setMode(request: {
    /** Absolute path in the session, such as `/src/a.ts`. Symlinks are followed. */
    readonly path: string
    /** Permission bits, 0 to 0o7777. */
    readonly mode: number
  }): Promise<void> {
    return this.#change('setAttributes', setModeShape, request, (live, copy) =>
      planSetAttributes(live, { path: copy.path }, { mode: parseMode(copy.mode) }),
    )
  }

  /**
   * Sets the permission bits, the time of the last change, or both.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   *
   * @example
   * await session.files.setAttributes({ path: '/src/a.ts', mode: 0o600, mtimeMs: Date.UTC(2026, 0, 1) })
   */
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

  /**
   * Creates a symlink. Its target need not exist.
   *
   * @throws {EngineError} ALREADY_EXISTS when the path exists.
   * @throws {EngineError} PATH_NOT_FOUND when the parent is missing.
   * @throws {EngineError} NAME_TOO_LONG when the target is over 4,095 bytes.
   *
   * @example
   * await session.files.createSymlink({ linkPath: '/latest', target: '/releases/2' })
   */
  createSymlink(request: CreateSymlinkRequest): Promise<void> {
    return this.#change('createSymlink', createSymlinkShape, request, (live, copy) =>
      planCreateSymlink(this.#access.core, live, copy),
    )
  }

  /**
   * The target of a symlink.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} NOT_A_SYMLINK when the path is not a symlink.
   *
   * @example
   * const { target } = await session.files.readSymlink('/latest')
   */
  async readSymlink(path: string): Promise<{
    /** The target as it was set, absolute or relative to the directory of the symlink. */
    target: string
  }> {
    return this.#access.look('readSymlink', (live) =>
      whenLoaded(() => ({ target: findSymlink(live, path).target })),
    )
  }

  /**
   * A page of the symlinks of the session. The manifest does not list them.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { symlinks } = await session.files.listSymlinks({ pathPrefix: '/bin/' })
   */
  async listSymlinks(request: SymlinkListRequest = {}): Promise<SymlinkPage> {
    const copy = symlinkListShape.read(request)
    return this.#access.look('listSymlinks', ({ tree }) =>
      listSymlinks(this.#access.core, tree.freeze(), copy),
    )
  }

  /**
   * Carries out writes, deletions and segment writes in order, as one atomic step: all of them, or with an error
   * none. Later operations see earlier ones. Other errors are those of `write`, `delete` and `patchSegments`.
   *
   * More than 1,000 operations take several turns of the event loop. Later changes of the session take effect after
   * them. Until then, reads see the state before, and synchronous changes fail with WOULD_BLOCK.
   *
   * @throws {EngineError} TOO_LARGE when there are over 10,000 operations, or over 100,000 chunks in segment writes.
   * @throws {EngineError} INVALID_ARGUMENT when an operation has none or several of its fields.
   *
   * @example
   * await session.files.batch([{ write: { path: '/b', content: 'two' } }, { delete: { path: '/a' } }])
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
   * Changes ranges of files, as one atomic step: data, holes, and ranges borrowed from content that the session or
   * its base has. The cost depends on the changed ranges, not on the size of the file. The hash of a file over 1 MiB
   * takes one pass over it when it is next needed.
   *
   * @throws {EngineError} HASH_MISMATCH when a content does not have the `expectedHash`, without SKIP_ON_CONFLICT.
   * @throws {EngineError} BLOB_NOT_FOUND when neither the session nor its base has a borrowed content.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} FILE_TOO_LARGE when a file would be over `maxFileBytes`.
   * @throws {EngineError} TOO_LARGE when there are over 10,000 files or 100,000 chunks.
   * @throws {EngineError} INVALID_ARGUMENT when a chunk ends after `logicalSize`, or after the end of a borrowed
   * content.
   *
   * @example
   * const data = { offset: 4096, content: new Uint8Array(4096) }
   * await session.files.patchSegments({ mutations: [{ path: '/disk.img', segments: [{ data }] }] })
   */
  async patchSegments(request: PatchSegmentsRequest): Promise<{
    /** Paths left out because their `expectedHash` did not match; empty without SKIP_ON_CONFLICT. */
    skippedPaths: string[]
  }> {
    const { core } = this.#access
    const patch = new SegmentPatch(core, request)
    return this.#access.run('patchSegments', (live) => {
      if (patch.borrows) this.#access.permitWhen('patchSegments', 'borrowed')
      return patch.apply(core, live)
    })
  }

  /**
   * The blobs that hold the bytes of a file.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} TOO_LARGE when the file is stored in over 500,000 extents.
   *
   * @example
   * const { extents } = await session.files.getCasExtents({ path: '/disk.img' })
   */
  async getCasExtents(request: {
    /** Absolute path in the session, such as `/src/a.ts`. Symlinks are followed. */
    readonly path: string
  }): Promise<{
    /** In the order of the file; gaps between them are holes. */
    extents: CasExtent[]
  }> {
    const { path } = pathShape.read(request)
    return this.#access.look('getCasExtents', async (live) => {
      // The file of the call, however often it changes while its blobs are hashed.
      const file = await whenLoaded(() => findFile(live, path))
      return { extents: await listCasExtents(this.#access.core, { file, path }) }
    })
  }

  /**
   * Gives a file a further name. Content, permission bits, attributes and locks are the same under each of its names.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the file, or the parent of the new name, does not exist.
   * @throws {EngineError} ALREADY_EXISTS when the new name exists.
   * @throws {EngineError} NOT_PERMITTED when `srcPath` is a directory.
   *
   * @example
   * await session.files.link({ srcPath: '/src/a.ts', dstPath: '/src/b.ts' })
   */
  link(request: LinkRequest): Promise<void> {
    return this.#change('createHardLink', linkShape, request, (live, copy) => planLink(live, copy))
  }

  /**
   * Removes a name of a file, or a symlink. The file is deleted with its last name.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} HASH_MISMATCH when the content does not have the `expectedHash`.
   *
   * @example
   * await session.files.unlink({ path: '/src/b.ts' })
   */
  unlink(request: DeleteRequest): Promise<void> {
    return this.#change('unlink', deleteShape, request, (live, copy) =>
      planDelete(this.#access.core, live, copy, eventTypes.unlink),
    )
  }

  /**
   * Sets an extended attribute of a file or directory.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} TOO_LARGE when the value is over 64 KiB, the name is over 255 bytes, or the file would have
   * over 256 attributes.
   *
   * @example
   * await session.files.setXattr({ path: '/src/a.ts', name: 'user.origin', value: 'agent-1' })
   */
  setXattr(request: SetXattrRequest): Promise<void> {
    try {
      const copy = setXattrShape.read(request)
      const value = parseXattrValue(copy.value)
      return this.#run('setXattr', (live) => planSetXattr(live, copy, value))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * The value of an extended attribute.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} XATTR_NOT_FOUND when the file or directory has no attribute with this name.
   *
   * @example
   * const { value } = await session.files.getXattr({ path: '/src/a.ts', name: 'user.origin' })
   */
  async getXattr(request: XattrRequest): Promise<{
    /** A copy of the value. */
    value: Uint8Array
  }> {
    const copy = xattrShape.read(request)
    return this.#access.look('getXattr', async (live) => {
      const { value } = await whenLoaded(() => findXattrAt(live, copy))
      return { value: await this.#access.core.content.read(value, 0, value.length) }
    })
  }

  /**
   * The names of the extended attributes of a file or directory.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   *
   * @example
   * const { names } = await session.files.listXattrs({ path: '/src/a.ts' })
   */
  async listXattrs(request: {
    /** Absolute path of a file or directory in the session. Symlinks are followed. */
    readonly path: string
  }): Promise<{
    /** In the order of their code units. */
    names: string[]
  }> {
    const { path } = pathShape.read(request)
    return this.#access.look('listXattrs', (live) => whenLoaded(() => ({ names: listXattrs(live, path) })))
  }

  /**
   * Removes an extended attribute.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} XATTR_NOT_FOUND when the file or directory has no attribute with this name.
   *
   * @example
   * await session.files.removeXattr({ path: '/src/a.ts', name: 'user.origin' })
   */
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
