import { Buffer } from 'node:buffer'
import { constants, promises as fs, type BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import type { HeldDirectory } from './held-directory.js'
import { unless } from './host-errors.js'
import { stampOf } from './host-stat.js'
import { hostLimits } from './limits.js'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants

/** What is opened in the place of a file, should it be swapped, is not waited for: the open itself tells. */
const openFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY

/** What such an open says of a symlink, a socket, a device without a driver, or nothing. */
const noFile = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EMLINK', 'ENXIO', 'ENODEV', 'EISDIR']

export interface ReadFile<T> {
  /** Of what was read last. */
  readonly stat: BigIntStats
  readonly value: T
  /** false: it changed each time that it was read. */
  readonly stable: boolean
}

/**
 * Reads a regular file of a directory; again when it changed meanwhile. Undefined when no regular file is there. To
 * be called for names that were one a moment ago: the open of a device may do something.
 */
export async function readFile<T>(
  directory: HeldDirectory,
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

/** Opens a regular file of a directory, without waiting for it. Undefined when no regular file is there. */
export async function openFile(
  directory: HeldDirectory,
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

/** Up to `size` bytes: a file that grows as fast as it is read ends too. */
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

/** All of a content that is not larger than a piece. */
export async function wholeOf(content: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let whole: Uint8Array = new Uint8Array(0)
  for await (const piece of content) whole = whole.length === 0 ? piece : Buffer.concat([whole, piece])
  return whole
}

/** A further name is no change of a content. */
function sameContent(before: BigIntStats, after: BigIntStats): boolean {
  return (
    stampOf(before) === stampOf(after) ||
    (before.nlink !== after.nlink && before.mtimeNs === after.mtimeNs && before.size === after.size)
  )
}
