import { constants, promises as fs, type BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { EngineError } from '../../engine/ports.js'
import { absent, hostFailed, unless } from './host-errors.js'

/** Some are missing on Windows, and count as 0 there: symlinks need rights of their own. */
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants
const openFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK

/**
 * A directory that is held open: names are looked up in it and not in what stands at its former path now, so who
 * swaps directories for symlinks cannot lead anywhere else.
 *
 * Where the kernel has no `/proc/self/fd`, the directory's path is compared with it before and after each step. A
 * swap in between is then noticed only when it has happened: what was read is thrown away, what was written may
 * have been written elsewhere.
 */
export class HeldDirectory {
  readonly handle: FileHandle
  readonly #path: string
  readonly #identity: Identity
  /** Whether names are looked up in the descriptor, by `/proc/self/fd`. */
  readonly viaDescriptor: boolean
  /** A descriptor that was closed under a running step would be another directory's soon. */
  #holders = 1
  #closed: Promise<void> | undefined

  private constructor(handle: FileHandle, path: string, identity: Identity, viaDescriptor: boolean) {
    this.handle = handle
    this.#path = path
    this.#identity = identity
    this.viaDescriptor = viaDescriptor
  }

  /** By its real path. Undefined when there is no directory, or another one by the time it is open. */
  static async open(realPath: string): Promise<HeldDirectory | undefined> {
    const handle = await unless(absent, () => fs.open(realPath, openFlags))
    if (handle === undefined) return undefined
    try {
      const identity = await handle.stat({ bigint: true })
      const link = await fs.readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined)
      const viaDescriptor = process.platform === 'linux' && link !== undefined
      if (identity.isDirectory() && (!viaDescriptor || link === realPath)) {
        const directory = new HeldDirectory(handle, realPath, identity, viaDescriptor)
        if (viaDescriptor || (await directory.#isInPlace())) return directory
      }
    } catch (error) {
      await handle.close()
      throw error
    }
    await handle.close()
    return undefined
  }

  /** A directory in this one. Undefined when there is none of this name: a symlink is none. */
  async enter(name: string): Promise<HeldDirectory | undefined> {
    return this.at(name, async (path) => {
      const handle = await unless(absent, () => fs.open(path, openFlags))
      if (handle === undefined) return undefined
      try {
        const identity = await handle.stat({ bigint: true })
        if (identity.isDirectory())
          return new HeldDirectory(handle, join(this.#path, name), identity, this.viaDescriptor)
      } catch (error) {
        await handle.close()
        throw error
      }
      await handle.close()
      return undefined
    })
  }

  /** Runs a step with a path that leads to a name in here. */
  async at<T>(name: string, step: (path: string) => Promise<T>): Promise<T> {
    if (name.includes('/') || name.includes('\0') || name === '' || name === '.' || name === '..')
      throw new EngineError('INTERNAL', 'a name that leads elsewhere')
    return this.#run(name, step)
  }

  /** Runs a step with a path that leads to the directory itself. */
  own<T>(step: (path: string) => Promise<T>): Promise<T> {
    return this.#run('', step)
  }

  /** Undefined when nothing has this name. */
  stat(name: string): Promise<BigIntStats | undefined> {
    return this.at(name, (path) => unless(absent, () => fs.lstat(path, { bigint: true })))
  }

  /** One more who closes it. */
  hold(): this {
    if (this.#holders === 0) throw new EngineError('INTERNAL', 'the directory was closed')
    this.#holders++
    return this
  }

  /** Closes it once everybody did who holds it. */
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
