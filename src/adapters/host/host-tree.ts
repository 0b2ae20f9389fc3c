import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { constants, promises as fs, type BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { EngineError, isOpenStore, type HostEntry, type HostStat, type HostTree } from '../../engine/ports.js'
import { copyDirectory, removeTree } from './copy-directory.js'
import type { DirectoryHandle } from './directory-handle.js'
import { absent, errnoOf, explained, hostFailed, hostPathNotAllowed, unless } from './host-errors.js'
import { describeStat } from './host-stat.js'
import { hostLimits } from './limits.js'
import { groups, listNames, statAll } from './list-names.js'
import { readFile } from './read-file.js'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

/** A Linux flag for which Node has no constant. It opens a symlink itself instead of its target. */
const O_PATH = 0o10000000

function temporaryNameOf(random: Buffer): string {
  return `.forkspace-${random.toString('hex')}.tmp`
}

const temporaryName = /^\.forkspace-[0-9a-f]{16}\.tmp$/

/**
 * The mode bits that are written. They exclude setuid and setgid, so no written file runs as another user.
 */
const writtenMode = 0o777

type Attributes = Parameters<HostTree['setAttributes']>[1]

/** A directory that is kept open, and recently used directories below it. */
export class OpenHostTree implements HostTree {
  readonly directory: string
  readonly platform = process.platform
  readonly #root: DirectoryHandle
  /** The open directories by path, in order of last use. */
  readonly #recent = new Map<string, DirectoryHandle>()

  constructor(directory: string, root: DirectoryHandle) {
    this.directory = directory
    this.#root = root
  }

  list(path: string): ReturnType<HostTree['list']> {
    return explained(path, () =>
      this.#within(path, async (directory) => {
        const { names, skipped, more } = await listNames(directory, hostLimits.entries)
        if (more) throw hostFailed('E2BIG', path)
        const entries: HostEntry[] = []
        let stores = 0
        for (const group of groups(names.filter((name) => !temporaryName.test(name)))) {
          for (const [name, stat] of await statAll(directory, group)) {
            if (stat.isDirectory() && isOpenStore(stat)) stores++
            else entries.push({ name, ...describeStat(stat) })
          }
        }
        return { entries, skipped: skipped + stores }
      }),
    )
  }

  stat(path: string): Promise<HostStat | undefined> {
    return explained(path, async () => {
      if (path === '/') return describeStat(await this.#root.handle.stat({ bigint: true }))
      return this.#at(path, async (directory, name) => {
        const stat = await directory.stat(name)
        return stat && describeStat(stat)
      })
    })
  }

  read<T>(
    path: string,
    receive: (content: AsyncIterable<Uint8Array>, stat: HostStat) => Promise<T>,
  ): Promise<{ readonly stat: HostStat; readonly value: T } | undefined> {
    return explained(path, () =>
      this.#at(path, async (directory, name) => {
        if ((await directory.stat(name))?.isFile() !== true) return undefined
        const file = await readFile(directory, name, (content, stat) => receive(content, describeStat(stat)))
        if (file === undefined) return undefined
        const stat = describeStat(file.stat)
        return { stat: { ...stat, fresh: stat.fresh || !file.stable }, value: file.value }
      }),
    )
  }

  readLink(path: string): Promise<string | undefined> {
    return explained(path, () =>
      this.#at(path, async (directory, name) => {
        const target = await directory.at(name, (at) =>
          unless([...absent, 'EINVAL'], () => fs.readlink(at, { encoding: 'buffer' })),
        )
        return target !== undefined && isUtf8(target) ? target.toString() : undefined
      }),
    )
  }

  makeDirectory(path: string): Promise<void> {
    return this.#change(path, (directory, name) =>
      directory.at(name, async (at) => {
        try {
          await fs.mkdir(at, 0o700)
        } catch (error) {
          if (errnoOf(error) !== 'EEXIST' || (await directory.stat(name))?.isDirectory() !== true) throw error
        }
      }),
    )
  }

  writeFile(
    path: string,
    content: AsyncIterable<Uint8Array>,
    { mode, mtimeMs }: { readonly mode: number; readonly mtimeMs: number },
  ): Promise<HostStat> {
    return this.#replace(path, async (directory, temporary, moveIntoPlace) => {
      const handle = await directory.at(temporary, (at) =>
        fs.open(at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600),
      )
      try {
        let position = 0
        for await (const piece of content) {
          for (let written = 0; written < piece.length;) {
            const { bytesWritten } = await handle.write(piece, written, piece.length - written, position)
            written += bytesWritten
            position += bytesWritten
          }
        }
        await handle.chmod(mode & writtenMode)
        await handle.utimes(...timesOf(mtimeMs))
        await moveIntoPlace()
        // Call stat after the move, because renaming may change the ctime.
        return describeStat(await handle.stat({ bigint: true }), 'content')
      } finally {
        await handle.close()
      }
    })
  }

  writeSymlink(path: string, target: string, { mtimeMs }: { readonly mtimeMs: number }): Promise<HostStat> {
    return this.#replace(path, async (directory, temporary, moveIntoPlace, name) => {
      await directory.at(temporary, (at) => fs.symlink(target, at))
      await setSymlinkTime(directory, temporary, mtimeMs)
      await moveIntoPlace()
      const stat = await directory.stat(name)
      if (stat?.isSymbolicLink() !== true) throw hostFailed('ESTALE', path)
      return describeStat(stat, 'content')
    })
  }

  link(existingPath: string, path: string, ino: string): Promise<HostStat | undefined> {
    return this.#replace(path, async (directory, temporary, moveIntoPlace, name) => {
      const linked = await this.#at(existingPath, (from, fromName) =>
        from.at(fromName, (fromAt) =>
          directory.at(temporary, (at) =>
            // These codes also cover a file with too many names, and a file system without hard links.
            unless([...absent, 'EMLINK', 'EPERM', 'EXDEV', 'ENOTSUP'], () =>
              fs.link(fromAt, at).then(() => true),
            ),
          ),
        ),
      )
      if (linked !== true) return undefined
      const stat = await directory.stat(temporary)
      if (stat === undefined || !stat.isFile() || describeStat(stat).ino !== ino) {
        await removeQuietly(directory, temporary)
        return undefined
      }
      await moveIntoPlace()
      // If both names belong to the same file, the move does nothing, so remove the temporary name.
      await removeQuietly(directory, temporary)
      const after = await directory.stat(name)
      return after && describeStat(after, 'content')
    })
  }

  setAttributes(path: string, attributes: Attributes): Promise<HostStat | undefined> {
    return explained(path, async () => {
      if (path === '/') return setOn(this.#root.handle, attributes)
      return this.#at(path, async (directory, name) => {
        const child = await directory.enter(name)
        if (child === undefined) return undefined
        try {
          return await setOn(child.handle, attributes)
        } finally {
          await child.close()
        }
      })
    })
  }

  async remove(path: string): Promise<void> {
    await explained(path, () =>
      this.#at(path, (directory, name) => directory.at(name, (at) => unless(absent, () => fs.unlink(at)))),
    )
  }

  async removeDirectory(path: string): Promise<boolean> {
    await this.#forget(path)
    const removed = await explained(path, () =>
      this.#at(path, (directory, name) =>
        directory.at(name, async (at) => {
          try {
            await fs.rmdir(at)
            return true
          } catch (error) {
            const errno = errnoOf(error)
            if (errno === 'ENOENT') return true
            if (errno === 'ENOTEMPTY' || errno === 'EEXIST') return false
            throw error
          }
        }),
      ),
    )
    return removed ?? true
  }

  copyDirectory(from: HostTree, path: string, signal: AbortSignal): Promise<void> {
    if (!(from instanceof OpenHostTree)) throw new EngineError('INTERNAL', 'the directory has another host')
    return this.#change(path, async (directory, name) => {
      const temporary = temporaryNameOf(randomBytes(8))
      try {
        await directory.at(temporary, (at) => fs.mkdir(at, 0o700))
        const copy = await directory.enter(temporary)
        if (copy === undefined) throw hostFailed('ESTALE', path)
        try {
          await copyDirectory(from.#root, copy, signal)
        } finally {
          await copy.close()
        }
        await directory.at(temporary, (at) => directory.at(name, (to) => fs.rename(at, to)))
      } catch (error) {
        await removeTree(directory, temporary).catch(() => undefined)
        throw error
      }
    })
  }

  clear(): Promise<void> {
    return explained('/', async () => {
      await this.#forget('/')
      for (;;) {
        const { names, skipped } = await listNames(this.#root, hostLimits.entries)
        if (skipped > 0) throw hostFailed('EILSEQ', '/')
        if (names.length === 0) return
        for (const name of names) await removeTree(this.#root, name)
      }
    })
  }

  async removeTemporary(path: string): Promise<void> {
    await explained(path, () =>
      this.#within(path, async (directory) => {
        const { names } = await listNames(directory, hostLimits.entries)
        for (const name of names) if (temporaryName.test(name)) await removeTree(directory, name)
      }),
    )
  }

  async close(): Promise<void> {
    await this.#forget('/')
    await this.#root.close()
  }

  /** Creates a file under a temporary name, and moves it to its path. */
  async #replace<T>(
    path: string,
    make: (
      directory: DirectoryHandle,
      temporary: string,
      moveIntoPlace: () => Promise<void>,
      name: string,
    ) => Promise<T>,
  ): Promise<T> {
    return this.#change(path, async (directory, name) => {
      const temporary = temporaryNameOf(randomBytes(8))
      const moveIntoPlace = (): Promise<void> =>
        directory.at(temporary, (from) => directory.at(name, (to) => fs.rename(from, to)))
      try {
        return await make(directory, temporary, moveIntoPlace, name)
      } catch (error) {
        await removeQuietly(directory, temporary)
        throw error
      }
    })
  }

  /** Like {@link #at}, but throws HOST_PATH_NOT_ALLOWED if there is no such directory. */
  #change<T>(path: string, act: (directory: DirectoryHandle, name: string) => Promise<T>): Promise<T> {
    return explained(path, async () => {
      const { parent, name } = splitPath(path)
      const directory = await this.#open(parent)
      if (directory === undefined) throw hostPathNotAllowed(path)
      try {
        return await act(directory, name)
      } finally {
        await directory.close()
      }
    })
  }

  /**
   * Runs a step with the parent directory and the last name of a path. Returns undefined if there is no such
   * directory.
   */
  async #at<T>(
    path: string,
    act: (directory: DirectoryHandle, name: string) => Promise<T>,
  ): Promise<T | undefined> {
    const { parent, name } = splitPath(path)
    return this.#within(parent, (directory) => act(directory, name))
  }

  async #within<T>(path: string, act: (directory: DirectoryHandle) => Promise<T>): Promise<T | undefined> {
    const directory = await this.#open(path)
    if (directory === undefined) return undefined
    try {
      return await act(directory)
    } finally {
      await directory.close()
    }
  }

  /** Opens a directory, which the caller must close. Returns undefined if it does not exist. */
  async #open(path: string): Promise<DirectoryHandle | undefined> {
    if (path === '/') return this.#root.hold()
    const known = this.#recent.get(path)
    if (known !== undefined) {
      this.#recent.delete(path)
      this.#recent.set(path, known)
      return known.hold()
    }
    const { parent, name } = splitPath(path)
    const above = await this.#open(parent)
    if (above === undefined) return undefined
    let directory: DirectoryHandle | undefined
    try {
      directory = await above.enter(name)
    } finally {
      await above.close()
    }
    if (directory === undefined) return undefined
    // Another call may have opened it in the meantime.
    if (this.#recent.has(path)) return directory
    this.#recent.set(path, directory.hold())
    await this.#evict()
    return directory
  }

  async #evict(): Promise<void> {
    for (const [path, directory] of this.#recent) {
      if (this.#recent.size <= hostLimits.openDirectories) return
      this.#recent.delete(path)
      await directory.close()
    }
  }

  /** Closes a directory and all directories below it. */
  async #forget(path: string): Promise<void> {
    const below = path === '/' ? '/' : `${path}/`
    for (const [openPath, directory] of this.#recent) {
      if (openPath !== path && !openPath.startsWith(below)) continue
      this.#recent.delete(openPath)
      await directory.close()
    }
  }
}

/**
 * Sets the time of a new symlink. Another process may have replaced it with a hard link to an outside file,
 * so on Linux the file is opened and checked first.
 */
async function setSymlinkTime(directory: DirectoryHandle, name: string, mtimeMs: number): Promise<void> {
  const times = timesOf(mtimeMs)
  if (!directory.viaDescriptor) return directory.at(name, (at) => fs.lutimes(at, ...times))
  const handle = await directory.at(name, (at) => fs.open(at, O_PATH | O_NOFOLLOW))
  try {
    const stat = await handle.stat({ bigint: true })
    if (stat.isSymbolicLink() && stat.nlink === 1n) await fs.utimes(`/proc/self/fd/${handle.fd}`, ...times)
  } finally {
    await handle.close()
  }
}

async function setOn(handle: FileHandle, { mode, mtimeMs }: Attributes): Promise<HostStat> {
  if (mode !== undefined) await handle.chmod(mode & writtenMode)
  if (mtimeMs !== undefined) await handle.utimes(...timesOf(mtimeMs))
  const stat: BigIntStats = await handle.stat({ bigint: true })
  return describeStat(stat, 'content')
}

/** Converts a time to seconds. Node truncates to microseconds, so half a microsecond is added to round it. */
function timesOf(mtimeMs: number): [atime: number, mtime: number] {
  const seconds = (mtimeMs + 0.0005) / 1000
  return [seconds, seconds]
}

async function removeQuietly(directory: DirectoryHandle, name: string): Promise<void> {
  await directory.at(name, (at) => fs.unlink(at)).catch(() => undefined)
}

function splitPath(path: string): { parent: string; name: string } {
  const cut = path.lastIndexOf('/')
  return { parent: path.slice(0, cut) || '/', name: path.slice(cut + 1) }
}
