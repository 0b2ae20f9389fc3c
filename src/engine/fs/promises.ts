import { Buffer } from 'node:buffer'
import { EngineError } from '../base/errors.js'
import { Fault, whenLoaded } from '../base/fault.js'
import { limits } from '../base/limits.js'
import { joinPath, parsePath } from '../base/path.js'
import { StagedContent } from '../cas/staging.js'
import type { SessionAccess } from '../session/access.js'
import type { Core } from '../session/core.js'
import { planSetAttributes } from '../session/attributes.js'
import { planCreateDirectory, planDelete, planRemoveDirectory, planRename } from '../session/files.js'
import { planCreateSymlink } from '../session/links.js'
import type { LiveSession } from '../session/live.js'
import { findDirectory, findNode, findSymlink } from '../session/lookup.js'
import type { Plan } from '../session/plan.js'
import { isADirectory, notADirectory, notFound, resolve } from '../session/resolve.js'
import { mutate, record } from '../session/transaction.js'
import { planAppend, planWrite } from '../session/writes.js'
import { Dir, FileNode, kindOf, Symlink } from '../tree/node.js'
import {
  checkText,
  flagError,
  parseFlag,
  slashed,
  throwIfAborted,
  toBytes,
  toMode,
  toOptions,
  toPath,
  toText,
  type Encoding,
  type PathLike,
} from './arguments.js'
import { rmOfDirectory, systemError, toSystemError } from './errors.js'
import { FileHandle } from './file-handle.js'
import { joinTo, listDirectory } from './listing.js'
import { Dirent, Stats } from './stats.js'

export interface ReadFileOptions {
  readonly encoding?: Encoding
  readonly flag?: string
  readonly signal?: AbortSignal
}

export interface WriteFileOptions {
  readonly encoding?: Encoding
  readonly mode?: number | string
  /** 'w' (default), 'wx', 'a' or 'ax'. */
  readonly flag?: string
  readonly signal?: AbortSignal
}

export interface ReaddirOptions {
  readonly encoding?: Encoding
  readonly withFileTypes?: boolean
  readonly recursive?: boolean
}

export interface MkdirOptions {
  readonly recursive?: boolean
  readonly mode?: number | string
}

/**
 * A session's files in the shape of `node:fs/promises`, with Node's error codes. Paths are absolute; `.` and
 * `..` are resolved before anything else. A write is acknowledged when its promise resolves.
 *
 * @example
 * const { promises } = session.fs
 * await promises.mkdir('/src', { recursive: true })
 * await promises.writeFile('/src/a.ts', 'export const a = 1')
 * await promises.readFile('/src/a.ts', 'utf8')
 */
export class FsPromises {
  readonly #access: SessionAccess
  readonly #core: Core

  constructor(access: SessionAccess) {
    this.#access = access
    this.#core = access.core
  }

  readFile(
    path: PathLike,
    options?: (ReadFileOptions & { encoding?: null | undefined | 'buffer' }) | null | 'buffer',
  ): Promise<Buffer>
  readFile(
    path: PathLike,
    options: (ReadFileOptions & { encoding: BufferEncoding }) | BufferEncoding,
  ): Promise<string>
  readFile(path: PathLike, options?: ReadFileOptions | Encoding): Promise<Buffer | string>
  readFile(path: PathLike, options?: ReadFileOptions | Encoding): Promise<Buffer | string> {
    return this.#read<Buffer | string>('open', path, (live, name) => {
      const { encoding, signal } = toOptions<ReadFileOptions>(options)
      throwIfAborted(signal)
      const file = openFile(live, name)
      const body = this.#core.contentIds.body(file)
      const short = file.size <= limits.importCommitBytes
      const bytes = short ? this.#core.content.readSync(body, 0, file.size) : undefined
      if (bytes !== undefined) return decode(bytes, encoding)
      return this.#core.content.read(body, 0, file.size).then((read) => decode(read, encoding))
    })
  }

  writeFile(path: PathLike, data: unknown, options?: WriteFileOptions | Encoding): Promise<void> {
    let staged: StagedContent
    let settings: WriteSettings
    try {
      settings = parseWriteOptions(options)
      staged = new StagedContent(toBytes(data, settings.encoding), this.#core)
    } catch (thrown) {
      return Promise.reject(toSystemError(thrown, { syscall: 'write' }))
    }
    const { append, exclusive, mode } = settings
    return this.#mutate('open', { path }, (live, name) => {
      if (slashed(path)) throw isADirectory(name)
      // As for open(2), the mode is that of a new file only.
      const creates = mode !== undefined && resolve(live.tree, name, true).node === undefined
      const request = creates ? { path: name, content: '', mode } : { path: name, content: '' }
      if (append && !exclusive) return planAppend(this.#core, live, request, staged, required)
      return planWrite(this.#core, live, request, staged, exclusive ? requiredNew : required)
    })
  }

  appendFile(path: PathLike, data: unknown, options?: WriteFileOptions | Encoding): Promise<void> {
    try {
      return this.writeFile(path, data, { flag: 'a', ...toOptions<WriteFileOptions>(options) })
    } catch (thrown) {
      return Promise.reject(thrown)
    }
  }

  /** Opens a file for reading ranges; flags other than 'r' are for whole files only, see `writeFile`. */
  open(path: PathLike, flags = 'r'): Promise<FileHandle> {
    return this.#read('open', path, (live, name) => {
      if (flags !== 'r' && flags !== 'rs') throw flagError(flags)
      const { path: at, node } = resolve(live.tree, name, true)
      if (node === undefined) throw notFound(name)
      if (!(node instanceof FileNode)) throw isADirectory(name)
      return new FileHandle(this.#access, { path: at, file: node })
    })
  }

  stat(path: PathLike): Promise<Stats> {
    return this.#read('stat', path, (live, name) => new Stats(findNode(live, name, true)))
  }

  lstat(path: PathLike): Promise<Stats> {
    return this.#read('lstat', path, (live, name) => new Stats(findNode(live, name, slashed(path))))
  }

  access(path: PathLike, _mode?: number): Promise<void> {
    return this.#read('access', path, (live, name) => void findNode(live, name, true))
  }

  realpath(path: PathLike): Promise<string> {
    return this.#read('realpath', path, (live, name) => {
      findNode(live, name, true)
      return resolve(live.tree, name, true).path
    })
  }

  readdir(path: PathLike, options: ReaddirOptions & { withFileTypes: true }): Promise<Dirent[]>
  readdir(
    path: PathLike,
    options: (ReaddirOptions & { encoding: 'buffer'; withFileTypes?: false }) | 'buffer',
  ): Promise<Buffer[]>
  readdir(
    path: PathLike,
    options?: (ReaddirOptions & { withFileTypes?: false }) | Encoding,
  ): Promise<string[]>
  readdir(path: PathLike, options?: ReaddirOptions | Encoding): Promise<string[] | Buffer[] | Dirent[]> {
    return this.#read<string[] | Buffer[] | Dirent[]>('scandir', path, (live, name) => {
      const { encoding, withFileTypes = false, recursive = false } = toOptions<ReaddirOptions>(options)
      const entries = listDirectory(live, findDirectory(live, name), recursive)
      if (withFileTypes) {
        const base = toText(path)
        return entries.map((entry) => new Dirent(entry.name, joinTo(base, entry.parent), kindOf(entry.node)))
      }
      const names = entries.map((entry) =>
        entry.parent === '' ? entry.name : `${entry.parent}/${entry.name}`,
      )
      if (encoding === 'buffer') return names.map((entry) => Buffer.from(entry))
      if (encoding === undefined || encoding === null || encoding === 'utf8') return names
      return names.map((entry) => Buffer.from(entry).toString(encoding))
    })
  }

  /** With `recursive`, resolves to the first directory that was created, if any. */
  async mkdir(path: PathLike, options?: MkdirOptions | number | string | null): Promise<string | undefined> {
    const settings: MkdirOptions = typeof options === 'object' && options !== null ? options : {}
    const mode = toMode(typeof options === 'object' ? settings.mode : options, 0o755)
    const { recursive = false } = settings
    let first: string | undefined
    await this.#mutate('mkdir', { path }, (live, name) => {
      if (recursive) refuseDangling(live, name)
      const plan = planCreateDirectory(this.#core, live, { path: name, mode }, recursive)
      first = plan === undefined ? undefined : ancestor(toText(path), plan.redo.length - 1)
      return plan
    })
    return recursive ? first : undefined
  }

  rmdir(path: PathLike): Promise<void> {
    return this.#mutate('rmdir', { path }, (live, name) => planRemoveDirectory(live, { path: name }))
  }

  unlink(path: PathLike): Promise<void> {
    return this.#mutate('unlink', { path }, (live, name) => planDelete(this.#core, live, { path: name }))
  }

  /** As in Node, what is missing fails at `lstat`, and a directory needs `recursive`. */
  rm(path: PathLike, options?: { recursive?: boolean; force?: boolean }): Promise<void> {
    const { recursive = false, force = false } = options ?? {}
    return this.#mutate('lstat', { path }, (live, name) => {
      const { node } = resolve(live.tree, name, false)
      if (node === undefined && force) return undefined
      if (!(node instanceof Dir)) return planDelete(this.#core, live, { path: name })
      if (recursive) return planRemoveDirectory(live, { path: name }, true)
      throw rmOfDirectory(toText(path))
    })
  }

  rename(oldPath: PathLike, newPath: PathLike): Promise<void> {
    return this.#mutate('rename', { path: oldPath, dest: newPath }, (live, sourcePath, destinationPath) =>
      planRename(live, { sourcePath, destinationPath }),
    )
  }

  chmod(path: PathLike, mode: number | string): Promise<void> {
    return this.#mutate('chmod', { path }, (live, name) =>
      planSetAttributes(live, { path: name }, { mode: toMode(mode) }),
    )
  }

  /** The target is kept as it is given; the kind of link that Windows wants is ignored. */
  symlink(target: PathLike, path: PathLike, _type?: string | null): Promise<void> {
    let text: string
    try {
      text = checkText(toText(target, 'target'), 'target')
    } catch (thrown) {
      return Promise.reject(thrown)
    }
    return this.#mutate('symlink', { path, target: text }, (live, linkPath) => {
      if (text === '') throw notFound('')
      return planCreateSymlink(this.#core, live, { linkPath, target: text })
    })
  }

  readlink(path: PathLike): Promise<string> {
    return this.#read('readlink', path, (live, name) => findSymlink(live, name).target)
  }

  /** At once where everything is loaded: a read that awaits nothing costs one promise. */
  #read<T>(
    syscall: string,
    path: PathLike,
    look: (live: LiveSession, name: string) => T | Promise<T>,
  ): Promise<T> {
    try {
      const name = toPath(path)
      const live = this.#access.reading()
      if (live instanceof Promise) return this.#readLoaded(syscall, path, live, look)
      if (slashed(path)) requireDirectory(live, name)
      const result = look(live, name)
      if (!(result instanceof Promise)) return Promise.resolve(result)
      return result.catch((thrown: unknown) => {
        throw explain(thrown, syscall, { path })
      })
    } catch (thrown) {
      if (thrown instanceof Fault) return this.#readLoaded(syscall, path, this.#access.reading(), look)
      return Promise.reject(explain(thrown, syscall, { path }))
    }
  }

  async #readLoaded<T>(
    syscall: string,
    path: PathLike,
    live: LiveSession | Promise<LiveSession>,
    look: (live: LiveSession, name: string) => T | Promise<T>,
  ): Promise<T> {
    try {
      const loaded = await live
      return await whenLoaded(() => {
        const name = toPath(path)
        if (slashed(path)) requireDirectory(loaded, name)
        return look(loaded, name)
      })
    } catch (thrown) {
      throw explain(thrown, syscall, { path })
    }
  }

  #mutate(
    syscall: string,
    paths: Paths,
    plan: (live: LiveSession, name: string, dest: string) => Plan,
  ): Promise<void> {
    try {
      const name = toPath(paths.path)
      const dest = 'dest' in paths ? toPath(paths.dest) : ''
      const done = this.#access.run((live) =>
        mutate(this.#core, live, () => {
          if (slashed(paths.path)) requireDirectory(live, name)
          if ('dest' in paths && slashed(paths.dest)) requireDirectory(live, dest)
          return record(this.#core, live, plan(live, name, dest))
        }),
      )
      return done.catch((thrown: unknown) => {
        throw explain(thrown, syscall, paths)
      })
    } catch (thrown) {
      return Promise.reject(explain(thrown, syscall, paths))
    }
  }
}

interface Paths {
  readonly path: PathLike
  readonly dest?: PathLike
  /** Of a symlink: it stands where other calls have their first path. */
  readonly target?: string
}

/** The error of the call, with the paths as they were given; what is no EngineError stays as it is. */
function explain(thrown: unknown, syscall: string, { path, dest, target }: Paths): Error {
  if (!(thrown instanceof EngineError)) return thrown as Error
  const given = toText(path)
  if (target !== undefined) return toSystemError(thrown, { syscall, path: target, dest: given })
  return toSystemError(
    thrown,
    dest === undefined ? { syscall, path: given } : { syscall, path: given, dest: toText(dest) },
  )
}

const required = { parents: 'require' } as const
const requiredNew = { parents: 'require', exclusive: true } as const

interface WriteSettings {
  readonly encoding: Encoding
  readonly append: boolean
  readonly exclusive: boolean
  readonly mode: number | undefined
}

const plainWrite: WriteSettings = { encoding: undefined, append: false, exclusive: false, mode: undefined }

function parseWriteOptions(options: WriteFileOptions | Encoding): WriteSettings {
  if (options === undefined) return plainWrite
  const { encoding, flag = 'w', mode, signal } = toOptions<WriteFileOptions>(options)
  throwIfAborted(signal)
  return { encoding, ...parseFlag(flag), mode: mode === undefined ? undefined : toMode(mode, 0) }
}

/** Node opens a directory and fails at the read, without a path. */
function openFile(live: LiveSession, path: string): FileNode {
  const node = findNode(live, path, true)
  if (node instanceof FileNode) return node
  throw systemError('EISDIR', { syscall: 'read' })
}

function decode(bytes: Buffer, encoding: Encoding): Buffer | string {
  return encoding === undefined || encoding === null || encoding === 'buffer'
    ? bytes
    : bytes.toString(encoding)
}

/** A path that ends with a slash asks for a directory. */
function requireDirectory(live: LiveSession, path: string): void {
  const { node } = resolve(live.tree, path, true)
  if (node !== undefined && !(node instanceof Dir)) throw notADirectory(path)
}

/** A recursive mkdir makes nothing through a symlink that leads nowhere. */
function refuseDangling(live: LiveSession, path: string): void {
  const names = parsePath(path)
  if (resolve(live.tree, path, true).path === path) return
  for (let depth = 1; depth <= names.length; depth++) {
    const part = joinPath(names.slice(0, depth))
    const { node } = resolve(live.tree, part, false)
    if (node === undefined) return
    if (!(node instanceof Symlink) || resolve(live.tree, part, true).node !== undefined) continue
    throw depth === names.length ? notFound(path) : systemError('ENOTDIR', { syscall: 'mkdir', path: part })
  }
}

/** The path as it was given without its last `levels` names. */
function ancestor(path: string, levels: number): string {
  let end = path
  for (let i = 0; i < levels; i++) end = end.replace(/\/+[^/]+\/*$/, '')
  return end
}
