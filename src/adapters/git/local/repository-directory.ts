import { randomBytes } from 'node:crypto'
import { constants, promises as fs } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { resolve } from 'node:path'
import { EngineError, type HostKind } from '../../../engine/ports.js'
import { kindOf, listNames, openFile, statAll, type HeldDirectory, type Roots } from '../../host/index.js'
import { gitLimits } from '../limits.js'
import { errorCode, grouped, readFully } from './local-files.js'
import type { FilePlace } from './open-files.js'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
const createFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW

export interface NamedKind {
  readonly name: string
  readonly kind: HostKind
}

/**
 * A directory of a repository on this host, held open. Paths are relative to it. Each of their names is looked up in
 * the directory that was opened for the name before it, and no symlink is followed, so that nothing outside is read
 * or written, whatever others swap meanwhile. Only regular files are opened: another kind of file, which could block
 * or act when it is opened, is GIT_NOT_A_REPOSITORY.
 *
 * A hard link looks like any other file. A user who may link a host file into a repository makes it readable there.
 * No file is written in place.
 */
export class RepositoryDirectory {
  /** The real path. */
  readonly path: string
  readonly #root: HeldDirectory

  private constructor(path: string, root: HeldDirectory) {
    this.path = path
    this.#root = root
  }

  /** Undefined when there is no such directory; PERMISSION_DENIED when it is outside of the roots. */
  static async open(path: string, roots: Roots): Promise<RepositoryDirectory | undefined> {
    try {
      const { directory, realPath } = await roots.open(path)
      return new RepositoryDirectory(realPath, directory)
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      if (error.reason === 'HOST_PATH_NOT_FOUND') return undefined
      if (error.reason !== 'HOST_PATH_NOT_ALLOWED') throw error
      throw new EngineError('PERMISSION_DENIED', `${path} is not below a directory of hostPaths.roots`, {
        path,
      })
    }
  }

  /** A directory in this one. Undefined when there is none. */
  async enter(path: string): Promise<RepositoryDirectory | undefined> {
    const found = await this.#within(path, (held) => Promise.resolve(held.hold()))
    return found && new RepositoryDirectory(resolve(this.path, path), found)
  }

  /** What is at a path; undefined when nothing is. */
  kind(path: string): Promise<HostKind | undefined> {
    return this.#at(path, async (held, name) => {
      const stat = await held.stat(name)
      return stat && kindOf(stat)
    })
  }

  /** Whether a file is at a path. */
  async isFile(path: string): Promise<boolean> {
    const kind = await this.kind(path)
    if (kind === 'symlink' || kind === 'other') throw this.#irregular(path, kind)
    return kind === 'file'
  }

  /** Undefined when there is no file. */
  open(path: string): Promise<FileHandle | undefined> {
    return this.#at(path, async (held, name) => {
      const stat = await held.stat(name)
      if (stat === undefined || stat.isDirectory()) return undefined
      if (!stat.isFile()) throw this.#irregular(path, kindOf(stat))
      return (await openFile(held, name))?.handle
    })
  }

  /** A file to be opened when it is needed. */
  file(path: string): FilePlace {
    return { key: `${this.path}/${path}`, open: () => this.open(path) }
  }

  /** The text of a file; undefined when there is none. */
  async readText(path: string, maxBytes: number = gitLimits.textBytes): Promise<string | undefined> {
    const handle = await this.open(path)
    if (handle === undefined) return undefined
    try {
      const { size } = await handle.stat()
      if (size > maxBytes) throw this.#tooLarge(path, 'bytes', maxBytes)
      return (await readFully(handle, 0, size)).toString()
    } finally {
      await handle.close()
    }
  }

  /** As {@link readText}, of a file that names places: no name has a NUL. GIT_NOT_A_REPOSITORY. */
  async readPlaces(path: string): Promise<string | undefined> {
    const text = await this.readText(path)
    if (text?.includes('\0') !== true) return text
    const file = resolve(this.path, path)
    throw new EngineError('GIT_NOT_A_REPOSITORY', `${file} is damaged: it contains a NUL character`, {
      path: file,
    })
  }

  readLink(path: string): Promise<string | undefined> {
    return this.#at(path, (held, name) => held.at(name, (at) => fs.readlink(at)))
  }

  /** The names in a directory; none when there is no such directory. */
  async list(path: string, maxNames: number = gitLimits.directoryEntries): Promise<NamedKind[]> {
    const listed = await this.#within(path, async (held) => {
      const { names, more } = await listNames(held, maxNames)
      if (more) throw this.#tooLarge(path, 'names', maxNames)
      const found: NamedKind[] = []
      for (const [name, stat] of await statAll(held, names)) found.push({ name, kind: kindOf(stat) })
      return found
    })
    return listed ?? []
  }

  /** Writes a file that is either whole and on disk, or not there under this name. Makes its directories. */
  async writeWhole(path: string, parts: Iterable<Uint8Array>): Promise<void> {
    await this.inParent(path, async (held, name) => {
      const temporary = `tmp_obj_${randomBytes(8).toString('hex')}`
      const file = await create(held, temporary, 0o444)
      try {
        try {
          for (const group of grouped(parts)) await file.appendFile(group)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(held, temporary, name)
      } catch (error) {
        await remove(held, temporary)
        throw error
      }
    })
  }

  /** Runs a step in the directory that a path is in, which is made where it is missing. */
  async inParent<T>(path: string, step: (held: HeldDirectory, name: string) => Promise<T>): Promise<T> {
    const names = path.split('/')
    for (let depth = 1; depth < names.length; depth++) {
      await this.#at(names.slice(0, depth).join('/'), (held, name) =>
        held.at(name, (at) => fs.mkdir(at)).catch(unlessExists),
      )
    }
    let done: { readonly value: T } | undefined
    await this.#at(path, async (held, name) => {
      done = { value: await step(held, name) }
    })
    if (done === undefined) throw new EngineError('GIT_REMOTE_ERROR', `${path}: its directory is gone`)
    return done.value
  }

  /** Removes a directory, and directories in it, as far as they hold no files. */
  async removeEmptyDirectories(path: string): Promise<void> {
    if ((await this.kind(path)) !== 'directory') return
    for (const { name, kind } of await this.list(path)) {
      if (kind === 'directory') await this.removeEmptyDirectories(`${path}/${name}`)
    }
    await this.#at(path, (held, name) => held.at(name, (at) => fs.rmdir(at)).catch(() => undefined))
  }

  close(): Promise<void> {
    return this.#root.close()
  }

  /** Runs a step on the last name of a path. Undefined when its directory is missing. */
  #at<T>(
    path: string,
    step: (held: HeldDirectory, name: string) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const cut = path.lastIndexOf('/')
    if (cut < 0) return step(this.#root, path)
    return this.#within(path.slice(0, cut), (held) => step(held, path.slice(cut + 1)))
  }

  /** Runs a step in a directory. Undefined when there is none; a file in its place counts as none. */
  async #within<T>(path: string, step: (held: HeldDirectory) => Promise<T>): Promise<T | undefined> {
    let held = this.#root.hold()
    try {
      for (const name of path.split('/')) {
        const next: HeldDirectory | undefined = await held.enter(name)
        if (next === undefined) {
          const stat = await held.stat(name)
          const kind = stat && kindOf(stat)
          if (kind === 'symlink' || kind === 'other') throw this.#irregular(path, kind)
          return undefined
        }
        await held.close()
        held = next
      }
      return await step(held)
    } finally {
      await held.close()
    }
  }

  #tooLarge(path: string, what: string, limit: number): EngineError {
    const place = resolve(this.path, path)
    return new EngineError('GIT_TOO_LARGE', `${place} has over ${limit} ${what}`, {
      path: place,
      limit: String(limit),
    })
  }

  #irregular(path: string, kind: HostKind): EngineError {
    const what = kind === 'symlink' ? 'a symlink' : 'a FIFO, socket or device'
    const place = resolve(this.path, path)
    return new EngineError(
      'GIT_NOT_A_REPOSITORY',
      `${place} is, or leads through, ${what}. In a repository only regular files and directories are read: put a copy of the content there.`,
      { path: place },
    )
  }
}

export function create(held: HeldDirectory, name: string, mode: number): Promise<FileHandle> {
  return held.at(name, (at) => fs.open(at, createFlags, mode))
}

export function rename(held: HeldDirectory, from: string, to: string): Promise<void> {
  return held.at(from, (fromAt) => held.at(to, (toAt) => fs.rename(fromAt, toAt)))
}

export async function remove(held: HeldDirectory, name: string): Promise<void> {
  await held.at(name, (at) => fs.unlink(at)).catch(() => undefined)
}

function unlessExists(error: unknown): void {
  if (errorCode(error) !== 'EEXIST') throw error
}
