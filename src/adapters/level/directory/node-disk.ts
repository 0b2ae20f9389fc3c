import { constants, fdatasyncSync, readSync, writeSync, writevSync } from 'node:fs'
import { chmod, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { levelLimits } from '../limits.js'
import type { Disk, DiskFile } from './disk.js'
import { errorCode } from '../errors.js'

/**
 * Opening must not wait if the path is a pipe instead of a file. Windows has neither this flag nor such
 * files.
 */
const reading = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)
const flags = { read: reading, create: 'wx+', write: 'r+' } as const
/** Stores contain private data, so other users of the system get no access. */
const modes = { directory: 0o700, file: 0o600 } as const

/** The file system of the host. */
export const nodeDisk: Disk = {
  async list(directory) {
    try {
      return await readdir(directory)
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    }
  },

  async makeDirectory(directory) {
    const first = await mkdir(directory, { recursive: true, mode: modes.directory })
    if (first !== undefined) await syncParents(directory, first)
    return first
  },

  async open(path, mode) {
    return new NodeFile(await open(path, flags[mode], modes.file))
  },

  rename: (from, to) => rename(from, to),

  remove: (path) => rm(path),

  syncDirectory,

  async restrict(path, kind) {
    // This fails for a file of another user, and on a disk without modes.
    await chmod(path, modes[kind]).catch(() => undefined)
  },
}

class NodeFile implements DiskFile {
  readonly #handle: FileHandle

  constructor(handle: FileHandle) {
    this.#handle = handle
  }

  async size(): Promise<number> {
    return (await this.#handle.stat()).size
  }

  async read(position: number, length: number): Promise<Uint8Array> {
    const bytes = Buffer.allocUnsafeSlow(length)
    let filled = 0
    while (filled < length) {
      const { bytesRead } = await this.#handle.read(bytes, filled, length - filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return bytes.subarray(0, filled)
  }

  readSync(position: number, length: number): Uint8Array {
    const bytes = Buffer.allocUnsafe(length)
    let filled = 0
    while (filled < length) {
      const bytesRead = readSync(this.#handle.fd, bytes, filled, length - filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return bytes.subarray(0, filled)
  }

  async write(position: number, pieces: readonly Uint8Array[]): Promise<void> {
    let at = position
    const [only] = pieces
    if (only !== undefined && pieces.length === 1 && only.length <= levelLimits.syncWriteBytes) {
      for (let done = 0; done < only.length;) {
        const written = writeSync(this.#handle.fd, only, done, only.length - done, position + done)
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
            ? writevSync(this.#handle.fd, left, at)
            : (await this.#handle.writev(left, at)).bytesWritten
        if (written === 0) throw new Error('nothing was written')
        at += written
        left = written === length ? [] : behind(left, written)
      }
    }
  }

  truncate(size: number): Promise<void> {
    return this.#handle.truncate(size)
  }

  async sync(where: 'here' | 'elsewhere' = 'elsewhere'): Promise<void> {
    if (where === 'here') fdatasyncSync(this.#handle.fd)
    else await this.#handle.datasync()
  }

  close(): Promise<void> {
    return this.#handle.close()
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
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } catch (error) {
    // Some file systems cannot sync a directory. Nothing more can be done there.
    const code = errorCode(error)
    if (code !== 'EINVAL' && code !== 'ENOTSUP') throw error
  } finally {
    await handle.close()
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
