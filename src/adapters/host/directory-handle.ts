import { constants, promises as fs, type BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import process from 'node:process'
import { EngineError, isOpenStore } from '../../engine/ports.js'
import { absent, hostFailed, openStoreNotAllowed, unless } from './host-errors.js'

/**
 * On Windows, some of these flags do not exist and count as 0. Creating symlinks needs special rights there.
 */
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants
const openFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK

/**
 * A directory that is kept open. Names are looked up in the open directory and not through its path, so
 * swapping directories for symlinks cannot lead a step elsewhere.
 *
 * Without `/proc/self/fd`, the directory at the path is compared with the open one before and after each
 * step. So a swap during the step is detected only afterwards. The result of a read is discarded, but a write
 * may have changed another directory.
 */
export class DirectoryHandle {
  readonly handle: FileHandle
  readonly #path: string
  readonly #identity: Identity
  /** Whether names are looked up through the descriptor, with `/proc/self/fd`. */
  readonly viaDescriptor: boolean
  /** The number of users. If the descriptor were closed during a step, another file could get its number. */
  #holders = 1
  #closed: Promise<void> | undefined

  private constructor(handle: FileHandle, path: string, identity: Identity, viaDescriptor: boolean) {
    this.handle = handle
    this.#path = path
    this.#identity = identity
    this.viaDescriptor = viaDescriptor
  }

  /**
   * Opens a directory, given its real path. Returns undefined if there is none, or if it was swapped before
   * it was open. Throws HOST_PATH_NOT_ALLOWED for the directory of an open store.
   */
  static async open(realPath: string): Promise<DirectoryHandle | undefined> {
    const handle = await unless(absent, () => fs.open(realPath, openFlags))
    if (handle === undefined) return undefined
    try {
      const identity = await handle.stat({ bigint: true })
      if (isOpenStore(identity)) throw openStoreNotAllowed(basename(realPath))
      const link = await fs.readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined)
      const viaDescriptor = process.platform === 'linux' && link !== undefined
      if (identity.isDirectory() && (!viaDescriptor || link === realPath)) {
        const directory = new DirectoryHandle(handle, realPath, identity, viaDescriptor)
        if (viaDescriptor || (await directory.#isInPlace())) return directory
      }
    } catch (error) {
      await handle.close()
      throw error
    }
    await handle.close()
    return undefined
  }

  /**
   * Opens a directory in this one. Returns undefined if no directory has this name; a symlink is not
   * followed. Throws HOST_PATH_NOT_ALLOWED for the directory of an open store.
   */
  async enter(name: string): Promise<DirectoryHandle | undefined> {
    return this.at(name, async (path) => {
      const handle = await unless(absent, () => fs.open(path, openFlags))
      if (handle === undefined) return undefined
      try {
        const identity = await handle.stat({ bigint: true })
        if (isOpenStore(identity)) throw openStoreNotAllowed(name)
        if (identity.isDirectory())
          return new DirectoryHandle(handle, join(this.#path, name), identity, this.viaDescriptor)
      } catch (error) {
        await handle.close()
        throw error
      }
      await handle.close()
      return undefined
    })
  }

  /** Runs a step with a path to a name in this directory. */
  async at<T>(name: string, step: (path: string) => Promise<T>): Promise<T> {
    if (name.includes('/') || name.includes('\0') || name === '' || name === '.' || name === '..')
      throw new EngineError('INTERNAL', 'a name contains a slash or NUL, or is empty, "." or ".."')
    return this.#run(name, step)
  }

  /** Runs a step with a path to this directory. */
  own<T>(step: (path: string) => Promise<T>): Promise<T> {
    return this.#run('', step)
  }

  /** Returns the stat of a name, or undefined if it does not exist. Does not follow a symlink. */
  stat(name: string): Promise<BigIntStats | undefined> {
    return this.at(name, (path) => unless(absent, () => fs.lstat(path, { bigint: true })))
  }

  /** Adds a user. Each user must call `close` once. */
  hold(): this {
    if (this.#holders === 0) throw new EngineError('INTERNAL', 'the directory was closed')
    this.#holders++
    return this
  }

  /** Removes a user. The last one closes the directory. */
  async close(): Promise<void> {
    if (--this.#holders === 0) await (this.#closed ??= this.handle.close())
  }

  async #run<T>(name: string, step: (path: string) => Promise<T>): Promise<T> {
    this.hold()
    try {
      if (this.viaDescriptor)
        return await step(
          name === '' ? `/proc/self/fd/${this.handle.fd}` : `/proc/self/fd/${this.handle.fd}/${name}`,
        )
      await this.#checkPlace()
      const result = await step(name === '' ? this.#path : join(this.#path, name))
      await this.#checkPlace()
      return result
    } finally {
      await this.close()
    }
  }

  async #checkPlace(): Promise<void> {
    if (!(await this.#isInPlace())) throw hostFailed('ESTALE', '/')
  }

  async #isInPlace(): Promise<boolean> {
    const [real, stat] = await Promise.all([
      fs.realpath(this.#path).catch(() => undefined),
      fs.lstat(this.#path, { bigint: true }).catch(() => undefined),
    ])
    return real === this.#path && stat?.dev === this.#identity.dev && stat.ino === this.#identity.ino
  }
}

interface Identity {
  readonly dev: bigint
  readonly ino: bigint
}
