import { Buffer } from 'node:buffer'
import { constants, promises as fs, type BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import type { DirectoryHandle } from './directory-handle.js'
import { unless } from './host-errors.js'
import { stampOf } from './host-stat.js'
import { hostLimits } from './limits.js'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants

/** If the file was swapped for a FIFO, a device or a symlink, the open neither blocks nor follows it. */
const openFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY

/** The error codes of this open for a symlink, a socket, a device without a driver, or a missing file. */
const noFile = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EMLINK', 'ENXIO', 'ENODEV', 'EISDIR']

export interface ReadFile<T> {
  /** The stat from before the last read. */
  readonly stat: BigIntStats
  readonly value: T
  /** False if the file changed during every read. */
  readonly stable: boolean
}

/**
 * Reads a regular file of a directory. If the file changes during the read, it is read again, at most
 * `hostLimits.reads` times in total. Returns undefined if there is no regular file. Call this only for a name
 * that was a regular file a moment ago, because opening a device can have effects.
 */
export async function readFile<T>(
  directory: DirectoryHandle,
  name: string,
  receive: (content: AsyncGenerator<Uint8Array>, stat: BigIntStats) => Promise<T>,
): Promise<ReadFile<T> | undefined> {
  const file = await openFile(directory, name)
  if (file === undefined) return undefined
  const { handle } = file
  try {
    let { stat } = file
    for (let read = 1; ; read++) {
      const value = await receive(piecesOf(handle, Number(stat.size)), stat)
      const after = await handle.stat({ bigint: true })
      const stable = sameContent(stat, after)
      if (stable || read === hostLimits.reads) return { stat, value, stable }
      stat = after
    }
  } finally {
    await handle.close()
  }
}

/** Opens a regular file of a directory, without blocking. Returns undefined if there is no regular file. */
export async function openFile(
  directory: DirectoryHandle,
  name: string,
): Promise<{ readonly handle: FileHandle; readonly stat: BigIntStats } | undefined> {
  const handle = await directory.at(name, (path) => unless(noFile, () => fs.open(path, openFlags)))
  if (handle === undefined) return undefined
  try {
    const stat = await handle.stat({ bigint: true })
    if (stat.isFile()) return { handle, stat }
  } catch (error) {
    await handle.close()
    throw error
  }
  await handle.close()
  return undefined
}

/** Reads up to `size` bytes, so that the read also ends for a file that keeps growing. */
async function* piecesOf(handle: FileHandle, size: number): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < size;) {
    const piece = Buffer.allocUnsafeSlow(Math.min(hostLimits.pieceBytes, size - position))
    let filled = 0
    while (filled < piece.length) {
      const { bytesRead } = await handle.read(piece, filled, piece.length - filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    if (filled > 0) yield piece.subarray(0, filled)
    if (filled < piece.length) return
    position += filled
  }
}

/** Joins a content that should fit into one piece. */
export async function wholeOf(content: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let whole: Uint8Array = new Uint8Array(0)
  for await (const piece of content) whole = whole.length === 0 ? piece : Buffer.concat([whole, piece])
  return whole
}

/**
 * Whether the content is unchanged. A new or removed hard link changes the ctime and the number of links, but
 * not the content.
 */
function sameContent(before: BigIntStats, after: BigIntStats): boolean {
  return (
    stampOf(before) === stampOf(after) ||
    (before.nlink !== after.nlink && before.mtimeNs === after.mtimeNs && before.size === after.size)
  )
}
