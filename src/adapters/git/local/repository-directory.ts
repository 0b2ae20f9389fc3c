import { randomBytes } from 'node:crypto'
import { constants, promises as fs } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { resolve } from 'node:path'
import { EngineError, type HostKind } from '../../../engine/ports.js'
import { kindOf, listNames, openFile, statAll, type DirectoryHandle, type Roots } from '../../host/index.js'
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
 * An open directory of a repository on this host. Paths are relative to it. Each name of a path is looked up
 * in the open directory of the previous name, and no symlink is followed. So nothing outside the repository
 * is read or written, even if another process swaps directories at the same time. Only regular files are
 * opened. Opening other kinds of file could block or have effects, so they throw GIT_NOT_A_REPOSITORY.
 *
 * A hard link looks like any other file. Linking a host file into a repository makes it readable there.
 * No file is overwritten in place.
 */
export class RepositoryDirectory {
  /** The real path of this directory. */
  readonly path: string
  readonly #root: DirectoryHandle

  private constructor(path: string, root: DirectoryHandle) {
    this.path = path
    this.#root = root
  }

  /**
   * Opens a directory. Returns undefined if it does not exist. Throws PERMISSION_DENIED if it is outside the
   * roots.
   */
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

  /** Opens a directory below this one. Returns undefined if it does not exist. */
  async enter(path: string): Promise<RepositoryDirectory | undefined> {
    const found = await this.#within(path, (directory) => Promise.resolve(directory.hold()))
    return found && new RepositoryDirectory(resolve(this.path, path), found)
  }

  /** Returns the kind of the file at a path, or undefined if there is none. */
  kind(path: string): Promise<HostKind | undefined> {
    return this.#at(path, async (directory, name) => {
      const stat = await directory.stat(name)
      return stat && kindOf(stat)
    })
  }

  /** Whether a regular file exists at a path. Throws GIT_NOT_A_REPOSITORY for a symlink or a special file. */
  async isFile(path: string): Promise<boolean> {
    const kind = await this.kind(path)
    if (kind === 'symlink' || kind === 'other') throw this.#irregular(path, kind)
    return kind === 'file'
  }

  /** Opens a regular file. Returns undefined if the path does not exist or is a directory. */
  open(path: string): Promise<FileHandle | undefined> {
    return this.#at(path, async (directory, name) => {
      const stat = await directory.stat(name)
      if (stat === undefined || stat.isDirectory()) return undefined
      if (!stat.isFile()) throw this.#irregular(path, kindOf(stat))
      return (await openFile(directory, name))?.handle
    })
  }

  /** A file that is opened on demand. */
  file(path: string): FilePlace {
    return { key: `${this.path}/${path}`, open: () => this.open(path) }
  }

  /** Returns the text of a file, or undefined if there is none. Throws GIT_TOO_LARGE. */
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

  /**
   * Like {@link readText}, for a file of paths. Throws GIT_NOT_A_REPOSITORY if it contains a NUL character.
   */
  async readPlaces(path: string): Promise<string | undefined> {
    const text = await this.readText(path)
    if (text?.includes('\0') !== true) return text
    const file = resolve(this.path, path)
    throw new EngineError('GIT_NOT_A_REPOSITORY', `${file} is damaged: it contains a NUL character`, {
      path: file,
    })
  }

  readLink(path: string): Promise<string | undefined> {
    return this.#at(path, (directory, name) => directory.at(name, (at) => fs.readlink(at)))
  }

  /** Returns the names in a directory, or an empty list if there is no such directory. */
  async list(path: string, maxNames: number = gitLimits.directoryEntries): Promise<NamedKind[]> {
    const listed = await this.#within(path, async (directory) => {
      const { names, more } = await listNames(directory, maxNames)
      if (more) throw this.#tooLarge(path, 'names', maxNames)
      const found: NamedKind[] = []
      for (const [name, stat] of await statAll(directory, names)) found.push({ name, kind: kindOf(stat) })
      return found
    })
    return listed ?? []
  }

  /** Writes a file, which gets its name only after it is complete and synced. Creates missing directories. */
  async writeWhole(path: string, parts: Iterable<Uint8Array>): Promise<void> {
    await this.inParent(path, async (directory, name) => {
      const temporary = `tmp_obj_${randomBytes(8).toString('hex')}`
      const file = await create(directory, temporary, 0o444)
      try {
        try {
          for (const group of grouped(parts)) await file.appendFile(group)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(directory, temporary, name)
      } catch (error) {
        await remove(directory, temporary)
        throw error
      }
    })
  }

  /** Runs a step in the parent directory of a path, which is created if it is missing. */
  async inParent<T>(
    path: string,
    step: (directory: DirectoryHandle, name: string) => Promise<T>,
  ): Promise<T> {
    const names = path.split('/')
    for (let depth = 1; depth < names.length; depth++) {
      await this.#at(names.slice(0, depth).join('/'), (directory, name) =>
        directory.at(name, (at) => fs.mkdir(at)).catch(unlessExists),
      )
    }
    let done: { readonly value: T } | undefined
    await this.#at(path, async (directory, name) => {
      done = { value: await step(directory, name) }
    })
    if (done === undefined) throw new EngineError('GIT_REMOTE_ERROR', `${path}: its directory was removed`)
    return done.value
  }

  /** Removes a directory and its subdirectories, except those that contain files. */
  async removeEmptyDirectories(path: string): Promise<void> {
    if ((await this.kind(path)) !== 'directory') return
    for (const { name, kind } of await this.list(path)) {
      if (kind === 'directory') await this.removeEmptyDirectories(`${path}/${name}`)
    }
    await this.#at(path, (directory, name) => directory.at(name, (at) => fs.rmdir(at)).catch(() => undefined))
  }

  close(): Promise<void> {
    return this.#root.close()
  }

  /**
   * Runs a step with the parent directory and the last name of a path. Returns undefined if the parent is
   * missing.
   */
  #at<T>(
    path: string,
    step: (directory: DirectoryHandle, name: string) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const cut = path.lastIndexOf('/')
    if (cut < 0) return step(this.#root, path)
    return this.#within(path.slice(0, cut), (directory) => step(directory, path.slice(cut + 1)))
  }

  /** Runs a step in a directory. Returns undefined if it does not exist or is a regular file. */
  async #within<T>(path: string, step: (directory: DirectoryHandle) => Promise<T>): Promise<T | undefined> {
    let directory = this.#root.hold()
    try {
      for (const name of path.split('/')) {
        const next: DirectoryHandle | undefined = await directory.enter(name)
        if (next === undefined) {
          const stat = await directory.stat(name)
          const kind = stat && kindOf(stat)
          if (kind === 'symlink' || kind === 'other') throw this.#irregular(path, kind)
          return undefined
        }
        await directory.close()
        directory = next
      }
      return await step(directory)
    } finally {
      await directory.close()
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
      `the path ${place} is ${what}, or goes through one. Only regular files and directories of a repository are read: replace it with a copy of its content.`,
      { path: place },
    )
  }
}

export function create(directory: DirectoryHandle, name: string, mode: number): Promise<FileHandle> {
  return directory.at(name, (at) => fs.open(at, createFlags, mode))
}

export function rename(directory: DirectoryHandle, from: string, to: string): Promise<void> {
  return directory.at(from, (fromAt) => directory.at(to, (toAt) => fs.rename(fromAt, toAt)))
}

export async function remove(directory: DirectoryHandle, name: string): Promise<void> {
  await directory.at(name, (at) => fs.unlink(at)).catch(() => undefined)
}

function unlessExists(error: unknown): void {
  if (errorCode(error) !== 'EEXIST') throw error
}
