import { posix } from 'node:path'
import type { BufferEncoding, ByteString, FileContent, FsStat, IFileSystem } from 'just-bash'
import { DefenseInDepthBox, unsafeBytesFromLatin1 } from 'just-bash'
import type { Session } from '../../engine/index.js'
import { fsError, isMissing } from './errors.js'
import { Layers, toFsStat, type Place } from './layers.js'
import { normalPath, type PrivateLayer } from './private-layer.js'
import { sessionCalls, type Acknowledgement, type Running, type SessionCalls } from './session-calls.js'

type SessionFs = Session['fs']
type DirentEntry = Awaited<ReturnType<NonNullable<IFileSystem['readdirWithFileTypes']>>>[number]
type Encoding = BufferEncoding | { readonly encoding?: BufferEncoding | null } | undefined

/**
 * The files of a session as a file system of just-bash. The directories for commands and devices are in a private
 * layer, which the session never gets.
 */
export class WorkspaceFileSystem implements IFileSystem {
  readonly #current: () => SessionFs
  readonly #private: PrivateLayer
  readonly #session: SessionCalls
  readonly #layers: Layers

  constructor(
    current: () => SessionFs,
    layer: PrivateLayer,
    acknowledgement: Acknowledgement,
    running?: Running,
  ) {
    this.#current = current
    this.#private = layer
    this.#session = sessionCalls(current, acknowledgement, running)
    this.#layers = new Layers(this.#session, layer)
  }

  async readFile(path: string, options?: Encoding): Promise<string> {
    return bufferOf(await this.readFileBuffer(path)).toString(encodingOf(options))
  }

  async readFileBytes(path: string): Promise<ByteString> {
    return unsafeBytesFromLatin1(bufferOf(await this.readFileBuffer(path)).toString('latin1'))
  }

  readFileBuffer(path: string): Promise<Uint8Array> {
    return this.#layers.read<Uint8Array>(path, 'open', ({ layer, path: at }) =>
      layer === 'private' ? this.#private.memory.readFileBuffer(at) : this.#session.readFile(at),
    )
  }

  async writeFile(path: string, content: FileContent, options?: Encoding): Promise<void> {
    const { layer, path: at } = await this.#layers.change(path, 'open', { replaces: true })
    const bytes = bytesOf(content, options)
    if (layer === 'private') return this.#private.memory.writeFile(at, bytes)
    return this.#withParents(at, () => this.#session.writeFile(at, bytes))
  }

  async appendFile(path: string, content: FileContent, options?: Encoding): Promise<void> {
    const { layer, path: at } = await this.#layers.change(path, 'open')
    const bytes = bytesOf(content, options)
    if (layer === 'private') return this.#private.memory.appendFile(at, bytes)
    return this.#withParents(at, () => this.#session.appendFile(at, bytes))
  }

  async exists(path: string): Promise<boolean> {
    return this.stat(path).then(
      () => true,
      () => false,
    )
  }

  stat(path: string): Promise<FsStat> {
    return this.#layers.read(path, 'stat', async ({ layer, path: at }) =>
      layer === 'private' ? this.#private.memory.stat(at) : toFsStat(await this.#session.stat(at)),
    )
  }

  lstat(path: string): Promise<FsStat> {
    return this.#layers.read(path, 'lstat', (place) => this.#layers.lstat(place), false)
  }

  async mkdir(path: string, options?: { readonly recursive?: boolean }): Promise<void> {
    const recursive = options?.recursive === true
    const { layer, path: at } = await this.#layers.change(path, 'mkdir', { follow: false, replaces: true })
    if (this.#private.isShared(at)) {
      if (recursive) return
      throw fsError('EEXIST', 'mkdir', path)
    }
    if (layer === 'private') return this.#private.memory.mkdir(at, { recursive })
    await this.#session.mkdir(at, { recursive })
  }

  /** just-bash calls it when a shell is created, and only if `writeFileSync` exists too. */
  mkdirSync(path: string, options?: { readonly recursive?: boolean }): void {
    const at = normalPath(path)
    if (this.#private.has(at)) this.#private.memory.mkdirSync(at, options)
    else this.#current().mkdirSync(at, options)
  }

  /** just-bash calls it for each command, when a shell is created and when a command is added. */
  writeFileSync(path: string, content: FileContent): void {
    const at = normalPath(path)
    if (this.#private.has(at)) this.#private.memory.writeFileSync(at, content)
    else this.#current().writeFileSync(at, content)
  }

  async readdir(path: string): Promise<string[]> {
    return (await this.readdirWithFileTypes(path)).map(({ name }) => name)
  }

  readdirWithFileTypes(path: string): Promise<DirentEntry[]> {
    return this.#layers.read(path, 'scandir', async (place) => {
      const { path: at } = place
      if (!this.#private.isShared(at) && !this.#private.has(at)) return this.#sessionEntries(at)
      const own = await this.#private.memory.readdirWithFileTypes(at).catch(absentAs(isMissing, []))
      const theirs = await this.#sessionEntries(at).catch(absentAs(isMissing, undefined))
      if (theirs === undefined && own.length === 0 && !(await this.#private.memory.exists(at)))
        throw fsError('ENOENT', 'scandir', path)
      const byName = new Map([...(theirs ?? []), ...own].map((entry) => [entry.name, entry]))
      return [...byName.values()].sort(byNames)
    })
  }

  async rm(
    path: string,
    options?: { readonly recursive?: boolean; readonly force?: boolean },
  ): Promise<void> {
    const { recursive = false, force = false } = options ?? {}
    let place: Place
    try {
      place = await this.#changed(path, 'rm')
      if (place.layer === 'private') return await this.#private.memory.rm(place.path, { recursive, force })
      const { isDirectory } = await this.#layers.lstat(place)
      if (isDirectory && !recursive) await this.#session.rmdir(place.path)
      else await this.#session.rm(place.path, { recursive })
    } catch (error) {
      if (!force || !isMissing(error)) throw error
    }
  }

  async cp(src: string, dest: string, options?: { readonly recursive?: boolean }): Promise<void> {
    const recursive = options?.recursive === true
    const from = await this.#layers.read(
      src,
      'cp',
      async (place) => {
        const { isDirectory } = await this.#layers.lstat(place)
        if (isDirectory && !recursive) throw fsError('EISDIR', 'cp', src)
        return place
      },
      false,
    )
    const to = await this.#layers.change(dest, 'cp', { follow: false, replaces: true })
    if (isBelow(to.path, from.path)) throw fsError('EINVAL', 'cp', src)
    const isOfSession = from.layer === 'session' && to.layer === 'session'
    if (!isOfSession || this.#private.isShared(from.path) || this.#private.isShared(to.path))
      return this.#copy(from.path, to.path)
    await this.#withParents(to.path, () =>
      this.#session.cp(from.path, to.path, { recursive, verbatimSymlinks: true }),
    )
  }

  async mv(src: string, dest: string): Promise<void> {
    const from = await this.#changed(src, 'rename')
    const to = await this.#changed(dest, 'rename', true)
    if (from.path === to.path) return
    if (from.layer === 'session' && to.layer === 'session')
      return this.#withParents(to.path, () => this.#session.rename(from.path, to.path))
    // It throws for a path that does not exist, before anything is copied.
    await this.#layers.lstat(from)
    if (isBelow(to.path, from.path)) throw fsError('EINVAL', 'rename', src)
    await this.#copy(from.path, to.path)
    await this.rm(from.path, { recursive: true })
  }

  resolvePath(base: string, path: string): string {
    return posix.resolve('/', base, path)
  }

  /** All paths of both layers. It takes as long as the tree is large. */
  getAllPaths(): string[] {
    const own = this.#private.memory.getAllPaths()
    const theirs = DefenseInDepthBox.runTrusted(() =>
      this.#current().readdirSync('/', { recursive: true, encoding: 'utf8' }),
    )
    return [...new Set([...own, ...theirs.map((path) => `/${path}`)])]
  }

  async chmod(path: string, mode: number): Promise<void> {
    const { layer, path: at } = await this.#layers.change(path, 'chmod')
    return layer === 'private' ? this.#private.memory.chmod(at, mode) : this.#session.chmod(at, mode)
  }

  async symlink(target: string, linkPath: string): Promise<void> {
    if (target.includes('\0')) throw fsError('EINVAL', 'symlink', linkPath)
    const { layer, path: at } = await this.#changed(linkPath, 'symlink', true)
    if (layer === 'private') return this.#private.memory.symlink(target, at)
    return this.#withParents(at, () => this.#session.symlink(target, at))
  }

  async link(existingPath: string, newPath: string): Promise<void> {
    const from = await this.#layers.change(existingPath, 'link', { follow: false })
    const to = await this.#changed(newPath, 'link', true)
    if (from.layer !== to.layer) throw fsError('EXDEV', 'link', newPath)
    if (from.layer === 'private') return this.#private.memory.link(from.path, to.path)
    return this.#withParents(to.path, () => this.#session.link(from.path, to.path))
  }

  readlink(path: string): Promise<string> {
    return this.#layers.read(path, 'readlink', (place) => this.#layers.readlink(place), false)
  }

  realpath(path: string): Promise<string> {
    return this.#layers.read(path, 'realpath', ({ layer, path: at }) =>
      layer === 'private' ? this.#private.memory.realpath(at) : this.#session.realpath(at),
    )
  }

  async utimes(path: string, atime: Date, mtime: Date): Promise<void> {
    const { layer, path: at } = await this.#layers.change(path, 'utimes')
    return layer === 'private'
      ? this.#private.memory.utimes(at, atime, mtime)
      : this.#session.utimes(at, atime, mtime)
  }

  /** The place of an entry that a change removes or makes. The private directories and their parents stay. */
  async #changed(path: string, syscall: string, replaces = false): Promise<Place> {
    const place = await this.#layers.change(path, syscall, { follow: false, replaces })
    if (this.#private.isShared(place.path)) throw fsError('EBUSY', syscall, path)
    return place
  }

  /** Makes missing parents, as all file systems of just-bash do. */
  async #withParents(path: string, change: () => Promise<void>): Promise<void> {
    try {
      await change()
    } catch (error) {
      if (!isMissing(error)) throw error
      const parent = posix.dirname(path)
      if (await this.exists(parent)) throw error
      await this.mkdir(parent, { recursive: true })
      await change()
    }
  }

  /** A copy by single calls, because the paths are in different layers, or in both. */
  async #copy(from: string, to: string): Promise<void> {
    const { isDirectory, isSymbolicLink, mode } = await this.lstat(from)
    if (isSymbolicLink) {
      await this.rm(to, { force: true })
      return this.symlink(await this.readlink(from), to)
    }
    if (isDirectory) {
      await this.mkdir(to, { recursive: true })
      for (const name of await this.readdir(from))
        await this.#copy(posix.join(from, name), posix.join(to, name))
      return
    }
    await this.writeFile(to, await this.readFileBuffer(from))
    await this.chmod(to, mode)
  }

  async #sessionEntries(path: string): Promise<DirentEntry[]> {
    const entries = await this.#session.readdir(path, { withFileTypes: true })
    return entries
      .map((entry) => ({
        name: entry.name,
        isFile: entry.isFile(),
        isDirectory: entry.isDirectory(),
        isSymbolicLink: entry.isSymbolicLink(),
      }))
      .sort(byNames)
  }
}

/** A handler that replaces some errors by a value. */
function absentAs<T>(is: (error: unknown) => boolean, value: T): (error: unknown) => T {
  return (error) => {
    if (is(error)) return value
    throw error
  }
}

function byNames(one: DirentEntry, other: DirentEntry): number {
  return one.name < other.name ? -1 : one.name > other.name ? 1 : 0
}

/** Whether a path is another one, or below it. */
function isBelow(path: string, above: string): boolean {
  return path === above || path.startsWith(above === '/' ? above : `${above}/`)
}

function encodingOf(options: Encoding): BufferEncoding | undefined {
  return (typeof options === 'string' ? options : options?.encoding) ?? undefined
}

function bytesOf(content: FileContent, options: Encoding): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content, encodingOf(options)) : content
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
