import type { Buffer } from 'node:buffer'
import { StagedContent } from '../cas/staging.js'
import type { SessionAccess } from '../session/access.js'
import type { Core } from '../session/core.js'
import {
  findDirectory,
  findNode,
  findSymlink,
  planAppend,
  planCreateDirectory,
  planCreateSymlink,
  planDelete,
  planRemoveDirectory,
  planRename,
  planSetMode,
  planWrite,
  type Plan,
} from '../session/files.js'
import type { LiveSession } from '../session/live.js'
import { resolve } from '../session/resolve.js'
import { mutate, record } from '../session/transaction.js'
import { Fault, whenLoaded } from '../base/fault.js'
import { Dir, FileNode, type Node } from '../tree/node.js'
import {
  argumentError,
  toBytes,
  toMode,
  toOptions,
  toPath,
  type Encoding,
  type PathLike,
} from './arguments.js'
import { systemError, toSystemError } from './errors.js'
import { Dirent, kindOf, Stats } from './stats.js'

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

interface Call {
  readonly syscall: string
  readonly path?: string
  readonly dest?: string
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
  async readFile(path: PathLike, options?: ReadFileOptions | Encoding): Promise<Buffer | string> {
    const { encoding, signal } = toOptions<ReadFileOptions>(options)
    const name = toPath(path)
    signal?.throwIfAborted()
    const bytes = await this.#read({ syscall: 'open', path: name }, (live) => {
      const file = this.#openFile(live, name)
      const body = this.#core.contentIds.body(file)
      return this.#core.content.readSync(body, 0, file.size) ?? this.#core.content.read(body, 0, file.size)
    })
    return encoding === undefined || encoding === null || encoding === 'buffer'
      ? bytes
      : bytes.toString(encoding)
  }

  async writeFile(path: PathLike, data: unknown, options?: WriteFileOptions | Encoding): Promise<void> {
    const { encoding, flag = 'w', mode, signal } = toOptions<WriteFileOptions>(options)
    const name = toPath(path)
    const content = toBytes(data, encoding)
    signal?.throwIfAborted()
    const { append, exclusive } = parseFlag(flag)
    const request = { path: name, content }
    const choices = { parents: 'require', exclusive } as const
    const newMode = mode === undefined ? undefined : toMode(mode, 0o644)
    let staged: StagedContent | undefined
    return this.#mutate({ syscall: 'open', path: name }, (live) => {
      staged ??= new StagedContent(content, this.#core)
      // As for open(2), the mode is that of a new file only.
      const creates = newMode !== undefined && resolve(live.tree, name, true).node === undefined
      const full = creates ? { ...request, mode: newMode } : request
      return append && !exclusive
        ? planAppend(this.#core, live, full, staged, choices)
        : planWrite(this.#core, live, full, staged, choices)
    })
  }

  appendFile(path: PathLike, data: unknown, options?: WriteFileOptions | Encoding): Promise<void> {
    return this.writeFile(path, data, { flag: 'a', ...toOptions<WriteFileOptions>(options) })
  }

  stat(path: PathLike): Promise<Stats> {
    const name = toPath(path)
    return this.#read({ syscall: 'stat', path: name }, (live) => new Stats(findNode(live, name, true)))
  }

  lstat(path: PathLike): Promise<Stats> {
    const name = toPath(path)
    return this.#read({ syscall: 'lstat', path: name }, (live) => new Stats(findNode(live, name, false)))
  }

  access(path: PathLike, _mode?: number): Promise<void> {
    const name = toPath(path)
    return this.#read({ syscall: 'access', path: name }, (live) => void findNode(live, name, true))
  }

  realpath(path: PathLike): Promise<string> {
    const name = toPath(path)
    return this.#read({ syscall: 'realpath', path: name }, (live) => {
      findNode(live, name, true)
      return resolve(live.tree, name, true).path
    })
  }

  readdir(path: PathLike, options: ReaddirOptions & { withFileTypes: true }): Promise<Dirent[]>
  readdir(
    path: PathLike,
    options?: (ReaddirOptions & { withFileTypes?: false }) | Encoding,
  ): Promise<string[]>
  readdir(path: PathLike, options?: ReaddirOptions | Encoding): Promise<string[] | Dirent[]>
  readdir(path: PathLike, options?: ReaddirOptions | Encoding): Promise<string[] | Dirent[]> {
    const { withFileTypes = false, recursive = false } = toOptions<ReaddirOptions>(options)
    const name = toPath(path)
    return this.#read<string[] | Dirent[]>({ syscall: 'scandir', path: name }, (live) => {
      const entries = listDirectory(live, findDirectory(live, name), recursive)
      const base = name === '/' ? '' : name
      if (!withFileTypes)
        return entries.map(({ parent, name: entry }) => (parent === '' ? entry : `${parent}/${entry}`))
      return entries.map(
        ({ parent, name: entry, node }) =>
          new Dirent(entry, (parent === '' ? base : `${base}/${parent}`) || '/', kindOf(node)),
      )
    })
  }

  /** With `recursive`, resolves to the first directory that was created, if any. */
  async mkdir(
    path: PathLike,
    options?: { recursive?: boolean; mode?: number | string } | number | string | null,
  ): Promise<string | undefined> {
    const { recursive = false, mode } =
      typeof options === 'object' && options !== null ? options : { mode: options ?? undefined }
    const name = toPath(path)
    const bits = toMode(mode, 0o755)
    let first: string | undefined
    await this.#mutate({ syscall: 'mkdir', path: name }, (live) => {
      const plan = planCreateDirectory(this.#core, live, { path: name, mode: bits }, recursive)
      first = plan?.redo[0]?.[1] as string | undefined
      return plan
    })
    return recursive ? first : undefined
  }

  rmdir(path: PathLike): Promise<void> {
    const name = toPath(path)
    return this.#mutate({ syscall: 'rmdir', path: name }, (live) => planRemoveDirectory(live, { path: name }))
  }

  unlink(path: PathLike): Promise<void> {
    const name = toPath(path)
    return this.#mutate({ syscall: 'unlink', path: name }, (live) =>
      planDelete(this.#core, live, { path: name }),
    )
  }

  rm(
    path: PathLike,
    { recursive = false, force = false }: { recursive?: boolean; force?: boolean } = {},
  ): Promise<void> {
    const name = toPath(path)
    return this.#mutate({ syscall: 'rm', path: name }, (live) => {
      const { node } = resolve(live.tree, name, false)
      if (node === undefined && force) return undefined
      if (!(node instanceof Dir)) return planDelete(this.#core, live, { path: name })
      if (!recursive) {
        throw Object.assign(
          argumentError('ERR_FS_EISDIR', `Path is a directory: rm returned EISDIR (is a directory) ${name}`),
          { path: name },
        )
      }
      return planRemoveDirectory(live, { path: name }, true)
    })
  }

  rename(oldPath: PathLike, newPath: PathLike): Promise<void> {
    const sourcePath = toPath(oldPath, 'oldPath')
    const destinationPath = toPath(newPath, 'newPath')
    return this.#mutate({ syscall: 'rename', path: sourcePath, dest: destinationPath }, (live) =>
      planRename(live, { sourcePath, destinationPath }),
    )
  }

  chmod(path: PathLike, mode: number | string): Promise<void> {
    const name = toPath(path)
    const bits = toMode(mode, 0)
    return this.#mutate({ syscall: 'chmod', path: name }, (live) =>
      planSetMode(live, { path: name, mode: bits }),
    )
  }

  symlink(target: PathLike, path: PathLike, _type?: string | null): Promise<void> {
    const linkPath = toPath(path)
    const text = typeof target === 'string' ? target : toPath(target, 'target')
    return this.#mutate({ syscall: 'symlink', path: text, dest: linkPath }, (live) =>
      planCreateSymlink(this.#core, live, { linkPath, target: text }),
    )
  }

  readlink(path: PathLike): Promise<string> {
    const name = toPath(path)
    return this.#read({ syscall: 'readlink', path: name }, (live) => findSymlink(live, name).target)
  }

  #openFile(live: LiveSession, path: string): FileNode {
    const node = findNode(live, path, true)
    if (node instanceof FileNode) return node
    // Node opens a directory and fails at the read, without a path.
    throw systemError('EISDIR', { syscall: 'read' })
  }

  /** At once where everything is loaded: a read that awaits nothing costs one promise. */
  #read<T>(call: Call, look: (live: LiveSession) => T | Promise<T>): Promise<T> {
    try {
      const live = this.#access.live()
      if (live instanceof Promise) return this.#readLoaded(call, live, look)
      live.lastActivityAt = this.#core.environment.wallClockMs()
      const result = look(live)
      return result instanceof Promise ? result.catch(rethrowAs(call)) : Promise.resolve(result)
    } catch (thrown) {
      if (thrown instanceof Fault) return this.#readLoaded(call, this.#access.live(), look)
      return Promise.reject(toSystemError(thrown, call))
    }
  }

  async #readLoaded<T>(
    call: Call,
    live: LiveSession | Promise<LiveSession>,
    look: (live: LiveSession) => T | Promise<T>,
  ): Promise<T> {
    try {
      const loaded = await live
      return await whenLoaded(() => look(loaded))
    } catch (thrown) {
      throw toSystemError(thrown, call)
    }
  }

  #mutate(call: Call, plan: (live: LiveSession) => Plan): Promise<void> {
    try {
      const live = this.#access.live()
      const done =
        live instanceof Promise
          ? live.then((loaded) => this.#carryOut(loaded, plan))
          : this.#carryOut(live, plan)
      return done.catch(rethrowAs(call))
    } catch (thrown) {
      return Promise.reject(toSystemError(thrown, call))
    }
  }

  #carryOut(live: LiveSession, plan: (live: LiveSession) => Plan): Promise<void> {
    return mutate(this.#core, live, () => {
      const event = plan(live)
      return event === undefined ? Promise.resolve() : record(this.#core, live, event)
    })
  }
}

function rethrowAs(call: Call): (thrown: unknown) => never {
  return (thrown) => {
    throw toSystemError(thrown, call)
  }
}

function parseFlag(flag: string): { append: boolean; exclusive: boolean } {
  if (!['w', 'wx', 'xw', 'a', 'ax', 'xa', 'w+', 'wx+', 'a+', 'ax+', 'as'].includes(flag)) {
    throw argumentError('ERR_INVALID_ARG_VALUE', `The argument 'flags' is invalid. Received '${flag}'`)
  }
  return { append: flag.includes('a'), exclusive: flag.includes('x') }
}

interface Entry {
  /** Relative to the listed directory; '' for its own entries. */
  readonly parent: string
  readonly name: string
  readonly node: Node
}

function listDirectory(live: LiveSession, dir: Dir, recursive: boolean): Entry[] {
  const { loader } = live.tree
  const entries: Entry[] = []
  const pending: [parent: string, dir: Dir][] = [['', dir]]
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const [parent, current] = next
    for (const page of current.pages ?? loader.loadDir(current)) {
      const names = page.names ?? loader.loadPage(page)
      for (const [index, name] of names.entries()) {
        const node = page.nodes[index]!
        entries.push({ parent, name, node })
        if (recursive && node instanceof Dir) pending.push([parent === '' ? name : `${parent}/${name}`, node])
      }
    }
  }
  return entries
}
