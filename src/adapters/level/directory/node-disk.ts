import {
  chmodSync,
  closeSync,
  constants,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsync,
  ftruncateSync,
  mkdirSync,
  openSync,
  read,
  readdirSync,
  readSync,
  renameSync,
  statSync,
  unlink,
  writev,
  writeSync,
  writevSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { levelLimits } from '../limits.js'
import type { Disk, DiskFile } from './disk.js'
import { errorCode } from '../errors.js'
import { fileIdentity } from './open-directory.js'

const readElsewhere = promisify(read)
const writevElsewhere = promisify(writev)
const fdatasyncElsewhere = promisify(fdatasync)
const fsyncElsewhere = promisify(fsync)

/**
 * Opening must not wait if the path is a pipe instead of a file. Windows has neither this flag nor such
 * files.
 */
const reading = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)
const flags = { read: reading, create: 'wx+', write: 'r+' } as const
/** Stores contain private data, so other users of the system get no access. */
const modes = { directory: 0o700, file: 0o600 } as const

/**
 * The file system of the host. Syncs, removals and large reads and writes run on another thread. The other calls block
 * the event loop: they change or read a few bytes of metadata, which takes less time than a call on another thread.
 */
export const nodeDisk: Disk = {
  async list(directory) {
    try {
      return readdirSync(directory)
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    }
  },

  async makeDirectory(directory) {
    const first = makeWithParents(directory)
    if (first !== undefined) await syncParents(directory, first)
    return first
  },

  async open(path, mode) {
    const fd = openSync(path, flags[mode], modes.file)
    if (!fstatSync(fd).isDirectory()) return new NodeFile(fd, path)
    closeSync(fd)
    // Linux opens a directory for reading. Only the read would fail, without the path.
    throw Object.assign(new Error(`EISDIR: ${path}`), { code: 'EISDIR', path })
  },

  async rename(from, to) {
    renameSync(from, to)
  },

  remove: promisify(unlink),

  syncDirectory,

  async restrict(path, kind) {
    try {
      chmodSync(path, modes[kind])
    } catch {
      // This fails for a file of another user, and on a disk without modes.
    }
  },
}

/**
 * Makes a directory and its missing parents. Returns the first one that was made. The recursive call of Node would never
 * end where the file system takes no new directories, as below `/proc`.
 */
function makeWithParents(directory: string): string | undefined {
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() === true) return undefined
  const parent = dirname(directory)
  const isParentThere = parent === directory || statSync(parent, { throwIfNoEntry: false }) !== undefined
  const first = isParentThere ? undefined : makeWithParents(parent)
  try {
    mkdirSync(directory, modes.directory)
    return first ?? directory
  } catch (error) {
    // Another process may have made it meanwhile. For a link to nothing, this throws ENOENT.
    if (errorCode(error) === 'EEXIST' && statSync(directory).isDirectory()) return first
    throw error
  }
}

/** The descriptor of a file that was closed. Every call with it fails. */
const closed = -1

class NodeFile implements DiskFile {
  #fd: number
  readonly #path: string
  /** Device and inode, which no other file can have while this one is open. */
  readonly #identity: string
  /** The calls that use the descriptor on another thread. */
  #running = 0
  #whenIdle: (() => void) | undefined

  constructor(fd: number, path: string) {
    this.#fd = fd
    this.#path = path
    const { dev, ino } = fstatSync(fd, { bigint: true })
    this.#identity = `${dev}:${ino}`
  }

  async size(): Promise<number> {
    return fstatSync(this.#fd).size
  }

  async read(position: number, length: number): Promise<Uint8Array> {
    if (length <= levelLimits.syncReadBytes) return this.readSync(position, length)
    const bytes = Buffer.allocUnsafeSlow(length)
    let filled = 0
    while (filled < length) {
      const { bytesRead } = await this.#elsewhere((fd) =>
        readElsewhere(fd, bytes, filled, length - filled, position + filled),
      )
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return bytes.subarray(0, filled)
  }

  readSync(position: number, length: number): Uint8Array {
    const bytes = Buffer.allocUnsafe(length)
    let filled = 0
    while (filled < length) {
      const bytesRead = this.#readNow(bytes, filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return bytes.subarray(0, filled)
  }

  #readNow(bytes: Buffer, at: number, position: number): number {
    try {
      return readSync(this.#fd, bytes, at, bytes.length - at, position)
    } catch (error) {
      // The error of a pipe, for example, must name it.
      throw error instanceof Error ? Object.assign(error, { path: this.#path }) : error
    }
  }

  async write(position: number, pieces: readonly Uint8Array[]): Promise<void> {
    let at = position
    const [only] = pieces
    if (only !== undefined && pieces.length === 1 && only.length <= levelLimits.syncWriteBytes) {
      for (let done = 0; done < only.length;) {
        const written = writeSync(this.#fd, only, done, only.length - done, position + done)
        if (written === 0) throw new Error('nothing was written')
        done += written
      }
      return
    }
    for (let i = 0; i < pieces.length; i += levelLimits.piecesPerWrite) {
      let left: readonly Uint8Array[] = pieces.slice(i, i + levelLimits.piecesPerWrite)
      for (let length = lengthOf(left); length > 0; length = lengthOf(left)) {
        const written =
          length <= levelLimits.syncWriteBytes
            ? writevSync(this.#fd, left, at)
            : (await this.#elsewhere((fd) => writevElsewhere(fd, left, at))).bytesWritten
        if (written === 0) throw new Error('nothing was written')
        at += written
        left = written === length ? [] : behind(left, written)
      }
    }
  }

  async truncate(size: number): Promise<void> {
    ftruncateSync(this.#fd, size)
  }

  async sync(where: 'here' | 'elsewhere' = 'elsewhere'): Promise<void> {
    if (where === 'here') fdatasyncSync(this.#fd)
    else await this.#elsewhere(fdatasyncElsewhere)
  }

  isAt(path: string): boolean {
    return fileIdentity(path) === this.#identity
  }

  /** Waits for running calls, because another file may get the number of a closed descriptor. */
  async close(): Promise<void> {
    const fd = this.#fd
    if (fd === closed) return
    this.#fd = closed
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve))
    closeSync(fd)
  }

  async #elsewhere<Result>(call: (fd: number) => Promise<Result>): Promise<Result> {
    const fd = this.#fd
    this.#running++
    try {
      return await call(fd)
    } finally {
      if (--this.#running === 0) this.#whenIdle?.()
    }
  }
}

function lengthOf(pieces: readonly Uint8Array[]): number {
  let length = 0
  for (const piece of pieces) length += piece.length
  return length
}

/** The pieces without their first `bytes` bytes. */
function behind(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  let skipped = 0
  for (const [i, piece] of pieces.entries()) {
    if (skipped + piece.length > bytes) return [piece.subarray(bytes - skipped), ...pieces.slice(i + 1)]
    skipped += piece.length
  }
  return []
}

/** Syncs a directory. Windows has no such call and needs none. */
async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const fd = openSync(path, 'r')
  try {
    await fsyncElsewhere(fd)
  } catch (error) {
    // Some file systems cannot sync a directory. Nothing more can be done there.
    const code = errorCode(error)
    if (code !== 'EINVAL' && code !== 'ENOTSUP') throw error
  } finally {
    closeSync(fd)
  }
}

async function syncParents(directory: string, firstCreated: string): Promise<void> {
  const top = dirname(firstCreated)
  let parent = directory
  do {
    parent = dirname(parent)
    await syncDirectory(parent)
  } while (parent !== top && parent !== dirname(parent))
}
