import { Buffer } from 'node:buffer'
import { posix } from 'node:path'
import {
  FileExistsError,
  IsDirectoryError,
  WorkspaceReadOnlyError,
  type CopyOptions,
  type FileContent,
  type FileEntry,
  type FileStat,
  type FilesystemGrepOptions,
  type FilesystemGrepResult,
  type FilesystemInfo,
  type ListOptions,
  type ReadOptions,
  type RemoveOptions,
  type WalkEntry,
  type WalkOptions,
  type WorkspaceFilesystem,
  type WriteOptions,
} from '@mastra/core/workspace'
import type { JsonObject, SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid, isBytes, Shape, untilAborted } from '../../engine/ports.js'
import { hashOf, workspaceOf } from '../tools/parts.js'
import { turnMarks } from '../turns/index.js'
import { forCall, handleFor, type Callable, type CurrentCall, type Shared } from './call.js'
import { copyDirectory, copyFile, move } from './copies.js'
import { isReason, translated, type Operation } from './errors.js'
import { grep } from './grep.js'
import { limits } from './limits.js'
import { listEntries, walk } from './listing.js'
import { mediaTypeOf } from './media-type.js'
import { pathOf } from './path.js'
import { writeUnlessStale } from './stale.js'

/** Options of {@link sessionFilesystem}. */
export interface SessionFilesystemOptions {
  /** Facts for the metadata of every event, such as the name of the agent. */
  readonly metadata?: JsonObject
  /**
   * The turn of the conversation, or a function that returns the present one. The changes of a turn are a group, which
   * `undo({ by: 'group' })` undoes together.
   */
  readonly turn?: string | (() => string | undefined)
  /** true: every change fails, and the agent gets no tools that write; false by default. */
  readonly readOnly?: boolean
}

/** The filesystem of a session: every required method of Mastra, and these optional ones. */
export type SessionFilesystem = WorkspaceFilesystem &
  Required<Pick<WorkspaceFilesystem, 'walk' | 'grep' | 'realpath' | 'getInstructions' | 'getInfo'>>

const optionsShape = new Shape<SessionFilesystemOptions>({ metadata: true, turn: true, readOnly: true })

/**
 * The files of a session as the filesystem of a Mastra workspace.
 *
 * Guarantees
 * - Paths stay in the session. The filesystem has no access to files of the host.
 * - A change is one event. With {@link sessionToolHooks}, it has the id of the tool call. Exceptions are a move into a
 *   missing directory, which is created by an event of its own, and a copy of directories without files.
 * - A call that fails changes nothing. Errors are those of Mastra, such as `FileNotFoundError`, with the one of the session
 *   as `cause`; where Mastra has none, that of the session.
 * - A write with `expectedMtime` fails with a `StaleFileError` if the file changed since it was read through this
 *   filesystem, also within the same millisecond, and while the write is under way.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { Workspace } from '@mastra/core/workspace'
 * import { sessionFilesystem } from 'forkspace/mastra'
 *
 * const workspace = new Workspace({ filesystem: sessionFilesystem(session) }) // for new Agent({ workspace })
 * await workspace.filesystem?.writeFile('notes.md', 'one')
 */
export function sessionFilesystem(
  session: SessionApi,
  options: SessionFilesystemOptions = {},
): SessionFilesystem {
  const { metadata, turn, readOnly = false } = optionsShape.read(options, 'options')
  if (typeof readOnly !== 'boolean')
    throw invalid('readOnly', `must be true or false; it is ${given(readOnly)}`)
  const workspace = workspaceOf(session, metadata === undefined ? {} : { metadata })
  return new Filesystem({ workspace, turn: turnMarks(turn) }, readOnly, {})
}

class Filesystem implements SessionFilesystem, Callable {
  readonly id: string
  readonly name = 'forkspace'
  readonly provider = 'forkspace'
  readonly status = 'ready'
  readonly readOnly: boolean
  readonly #shared: Shared
  readonly #call: CurrentCall

  constructor(shared: Shared, readOnly: boolean, call: CurrentCall) {
    this.id = shared.workspace.current.id
    this.readOnly = readOnly
    this.#shared = shared
    this.#call = call
  }

  [forCall](call: CurrentCall): Filesystem {
    return new Filesystem(this.#shared, this.readOnly, call)
  }

  getInfo(): FilesystemInfo {
    const { id, name, provider, status, readOnly } = this
    return { id, name, provider, status, readOnly }
  }

  getInstructions(): string {
    return (
      'A versioned filesystem. Paths begin at its root, with or without a leading slash, and have no "..". ' +
      'Every change can be undone.'
    )
  }

  async readFile(path: string, options: ReadOptions = {}): Promise<string | Buffer> {
    const { encoding } = readObject<ReadOptions>(options)
    if (encoding !== undefined && !(typeof encoding === 'string' && Buffer.isEncoding(encoding)))
      throw invalid('encoding', `must be an encoding of Node, such as utf-8; it is ${given(encoding)}`)
    return this.#read({ name: 'readFile', path, missing: 'file' }, async (session, at) => {
      const { content, contentHash, sizeBytes } = await session.files.readWithHash({
        path: at,
        length: limits.readBytes,
      })
      if (sizeBytes > limits.readBytes)
        throw new EngineError('TOO_LARGE', `${at} has ${sizeBytes} bytes, over ${limits.readBytes}`, {
          limit: String(limits.readBytes),
        })
      this.#shared.workspace.see(at, contentHash)
      const bytes = Buffer.from(content.buffer, content.byteOffset, content.length)
      return encoding === undefined ? bytes : bytes.toString(encoding)
    })
  }

  async writeFile(path: string, content: FileContent, options: WriteOptions = {}): Promise<void> {
    const { recursive, overwrite, expectedMtime } = readObject<WriteOptions>(options)
    const bytes = contentOf(content)
    const createParents = flag('recursive', recursive, true)
    const exclusive = !flag('overwrite', overwrite, true)
    const missing = createParents ? 'file' : 'parent'
    await this.#change({ name: 'writeFile', path, missing }, async (session, at) => {
      const request = { path: at, content: bytes, createParents, exclusive }
      if (expectedMtime === undefined || exclusive) await session.files.write(request)
      else
        await writeUnlessStale(this.#shared.workspace, session, request, { expectedMtime, shownPath: path })
      this.#shared.workspace.see(at, hashOf(bytes))
    })
  }

  async appendFile(path: string, content: FileContent): Promise<void> {
    const bytes = contentOf(content)
    await this.#change({ name: 'appendFile', path, missing: 'file' }, async (session, at) => {
      await session.files.append({ path: at, content: bytes })
      this.#shared.workspace.forget(at)
    })
  }

  async deleteFile(path: string, options: RemoveOptions = {}): Promise<void> {
    const force = flag('force', readObject<RemoveOptions>(options).force, false)
    await this.#change({ name: 'deleteFile', path, missing: 'file' }, async (session, at) => {
      await unlessMissing(force, session.files.delete({ path: at }))
      this.#shared.workspace.forget(at)
    })
  }

  async copyFile(src: string, dest: string, options: CopyOptions = {}): Promise<void> {
    const { recursive, overwrite } = readCopy(options)
    const to = pathOf(dest, 'dest')
    await this.#change({ name: 'copyFile', path: src, missing: 'file' }, async (session, from) => {
      const { kind } = await session.files.stat({ path: from })
      if (kind === 'directory' && !recursive) throw new IsDirectoryError(src)
      await whenFree({ dest, to }, async () =>
        kind === 'directory'
          ? copyDirectory(session, { from, to }, { overwrite }, this.#call.signal)
          : copyFile(session, { from, to }, !overwrite),
      )
      this.#shared.workspace.forget(to)
    })
  }

  async moveFile(src: string, dest: string, options: CopyOptions = {}): Promise<void> {
    const { overwrite } = readCopy(options)
    const to = pathOf(dest, 'dest')
    await this.#change({ name: 'moveFile', path: src, missing: 'file' }, async (session, from) => {
      await whenFree({ dest, to }, () => move(session, { from, to }, !overwrite))
      this.#shared.workspace.forget(from)
      this.#shared.workspace.forget(to)
    })
  }

  async mkdir(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    const recursive = flag('recursive', readObject<{ recursive?: boolean }>(options).recursive, true)
    await this.#change({ name: 'mkdir', path, missing: 'parent' }, async (session, at) => {
      try {
        await session.files.createDirectory({ path: at, recursive })
      } catch (error) {
        // Mastra does not mind a directory that exists.
        if (!isReason(error, 'ALREADY_EXISTS')) throw error
        const { kind } = await session.files.stat({ path: at })
        if (kind !== 'directory') throw error
      }
    })
  }

  async rmdir(path: string, options: RemoveOptions = {}): Promise<void> {
    const { recursive, force } = readObject<RemoveOptions>(options)
    const isForced = flag('force', force, false)
    const request = { recursive: flag('recursive', recursive, false) }
    await this.#change({ name: 'rmdir', path, missing: 'directory' }, async (session, at) => {
      await unlessMissing(isForced, session.files.removeDirectory({ path: at, ...request }))
      this.#shared.workspace.forget(at)
    })
  }

  async readdir(path: string, options: ListOptions = {}): Promise<FileEntry[]> {
    const list = readObject<ListOptions>(options)
    return this.#read({ name: 'readdir', path, missing: 'directory' }, (session, at) =>
      listEntries(session, at, list, this.#call.signal),
    )
  }

  async walk(path: string, options: WalkOptions = {}): Promise<WalkEntry[]> {
    const limited = readObject<WalkOptions>(options)
    return this.#read({ name: 'walk', path, missing: 'directory' }, (session, at) =>
      walk(session, at, limited, this.#call.signal),
    )
  }

  async grep(options: FilesystemGrepOptions): Promise<FilesystemGrepResult[]> {
    const search = readObject<FilesystemGrepOptions>(options)
    return this.#read({ name: 'grep', path: search.path, missing: 'file' }, (session, at) =>
      grep(session, at, search, this.#call.signal),
    )
  }

  async exists(path: string): Promise<boolean> {
    const at = pathOf(path)
    return untilAborted(this.#shared.workspace.current.files.stat({ path: at }), this.#call.signal).then(
      () => true,
      (error: unknown) => {
        if (isReason(error, 'PATH_NOT_FOUND', 'NOT_A_DIRECTORY', 'SYMLINK_LOOP')) return false
        throw error
      },
    )
  }

  async stat(path: string): Promise<FileStat> {
    return this.#read({ name: 'stat', path, missing: 'file' }, async (session, at) => {
      const { kind, sizeBytes, birthtimeMs, mtimeMs } = await session.files.stat({ path: at })
      const isDirectory = kind === 'directory'
      const mimeType = isDirectory ? undefined : mediaTypeOf(at)
      return {
        name: posix.basename(at),
        path: at,
        type: isDirectory ? 'directory' : 'file',
        size: sizeBytes,
        createdAt: new Date(birthtimeMs),
        modifiedAt: new Date(mtimeMs),
        ...(mimeType !== undefined && { mimeType }),
      }
    })
  }

  async realpath(path: string): Promise<string> {
    return this.#read({ name: 'realpath', path, missing: 'file' }, async (session, at) => {
      const stat = await session.files.stat({ path: at })
      return stat.path
    })
  }

  async #read<T>(operation: Operation, work: (session: SessionApi, path: string) => Promise<T>): Promise<T> {
    const at = pathOf(operation.path)
    const { signal } = this.#call
    signal?.throwIfAborted()
    return translated(operation, () => untilAborted(work(this.#shared.workspace.current, at), signal))
  }

  async #change(
    operation: Operation,
    work: (session: SessionApi, path: string) => Promise<void>,
  ): Promise<void> {
    const at = pathOf(operation.path)
    if (this.readOnly) throw new WorkspaceReadOnlyError(operation.name)
    this.#call.signal?.throwIfAborted()
    await translated(operation, () => work(handleFor(this.#shared, this.#call), at))
  }
}

async function unlessMissing(force: boolean, work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!force || !isReason(error, 'PATH_NOT_FOUND')) throw error
  }
}

/** An error about a destination that exists names it as the caller wrote it. */
async function whenFree(
  { dest, to }: { readonly dest: string; readonly to: string },
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    const isTaken =
      isReason(error, 'ALREADY_EXISTS') ||
      (isReason(error, 'HASH_MISMATCH') && error.details['path']?.startsWith(to) === true)
    if (!isTaken) throw error
    const translation = new FileExistsError(dest)
    translation.cause = error
    throw translation
  }
}

function contentOf(content: unknown): Buffer {
  if (typeof content === 'string') return Buffer.from(content)
  if (isBytes(content)) return Buffer.from(content)
  throw invalid('content', `must be a text or bytes; it is ${given(content)}`)
}

function readCopy(options: CopyOptions): { readonly recursive: boolean; readonly overwrite: boolean } {
  const { recursive, overwrite } = readObject<CopyOptions>(options)
  return { recursive: flag('recursive', recursive, false), overwrite: flag('overwrite', overwrite, true) }
}

/** Options of a call. Mastra may pass further ones than this version knows. */
function readObject<T extends object>(options: T | null): T {
  if (typeof options === 'object' && options !== null) return options
  throw invalid('options', `must be an object; it is ${given(options)}`)
}

function flag(field: string, value: unknown, byDefault: boolean): boolean {
  if (value === undefined) return byDefault
  if (typeof value === 'boolean') return value
  throw invalid(field, `must be true or false; it is ${given(value)}`)
}
