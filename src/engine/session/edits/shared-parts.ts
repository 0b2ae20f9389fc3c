import type { Buffer } from 'node:buffer'
import { sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { itemAt, present } from '../../base/present.js'
import { BlobRef } from '../../cas/blob.js'
import {
  blockAt,
  BlockBody,
  hasMoreExtents,
  listExtents,
  UnloadedBody,
  type LoadedBody,
} from '../../cas/body.js'
import type { ContentStore } from '../../cas/content.js'
import type { StagedContent } from '../../cas/staging.js'
import type { FileNode } from '../../tree/node.js'
import type { RedoPiece } from '../../records/event.js'
import type { Core } from '../core.js'
import type { Patch } from './compaction.js'

/**
 * A new content of a file as a patch of the old one, if the old one has most of it. Saving a note of 1 MiB with one
 * changed character then stores a few bytes. The patch has the bytes between the common start and the common end.
 *
 * Undefined if the store is not durable, if little would be shared, if the old content must be loaded first or is lost, or
 * if the file would have too many parts, or keep blobs of more than twice its size. Also if the caller may not read the
 * file: otherwise a budget, which counts the stored bytes, would show how much of a guess is right.
 */
export function sharedParts(
  { content, mayReadFiles }: Pick<Core, 'content' | 'mayReadFiles'>,
  file: FileNode,
  staged: Pick<StagedContent, 'size' | 'toCommit'>,
): Patch | undefined {
  const { size } = staged
  const { body } = file
  if (!content.storesPatches || size < limits.sharedFileBytes || size > limits.importCommitBytes)
    return undefined
  if (body === undefined || body instanceof UnloadedBody) return undefined
  if (body instanceof BlockBody && hasMoreExtents(body, limits.sharedFileExtents)) return undefined
  const blobs = staged.toCommit()
  // Contents that are stored already have no bytes here.
  if (blobs.length !== Math.ceil(size / limits.blockBytes)) return undefined
  if (blobs.some(({ isLoaded }) => !isLoaded)) return undefined
  if (mayReadFiles?.() === false) return undefined
  const both: Contents = { content, body, oldSize: file.size, blobs, size }
  const start = commonStart(both)
  if (start === undefined) return undefined
  const end = commonEnd(both, Math.min(size, file.size) - start)
  if (end === undefined || start + end < size / 2) return undefined
  return patchOf(both, start, end)
}

interface Contents {
  readonly content: ContentStore
  readonly body: LoadedBody
  readonly oldSize: number
  /** The new content, in blocks. */
  readonly blobs: readonly BlobRef[]
  readonly size: number
}

/** The number of bytes at the start that both have. Undefined if the old content is not in memory. */
function commonStart({ content, body, oldSize, blobs, size }: Contents): number | undefined {
  const limit = Math.min(size, oldSize)
  for (let at = 0; at < limit;) {
    const length = Math.min(windowFrom(at), limit - at)
    const before = oldBytes(content, body, at, length)
    if (before === undefined) return undefined
    const now = bytesAt(blobs, at, length)
    if (!before.equals(now)) return at + firstDifference(before, now)
    at += length
  }
  return limit
}

/** The number of bytes at the end that both have, at most `limit`. Undefined if the old content is not in memory. */
function commonEnd({ content, body, oldSize, blobs, size }: Contents, limit: number): number | undefined {
  for (let done = 0; done < limit;) {
    const end = size - done
    // The window is within one block of the new content.
    const within = end % limits.blockBytes || limits.blockBytes
    const length = Math.min(windowFrom(done), within, limit - done)
    const before = oldBytes(content, body, oldSize - done - length, length)
    if (before === undefined) return undefined
    const now = bytesAt(blobs, end - length, length)
    if (!before.equals(now)) return done + length - 1 - lastDifference(before, now)
    done += length
  }
  return limit
}

/** The bytes to compare next. The first step is short, because most contents differ at once or hardly. */
function windowFrom(done: number): number {
  return done === 0 ? limits.firstComparedBytes : limits.comparedBytes - (done % limits.comparedBytes)
}

/** Bytes of the old content, copied only if they are not in one blob. Undefined if they cannot be read now. */
function oldBytes(
  content: ContentStore,
  body: LoadedBody,
  offset: number,
  length: number,
): Buffer | undefined {
  const block = blockAt(body, Math.floor(offset / limits.blockBytes))
  const within = offset % limits.blockBytes
  if (block instanceof BlobRef && within + length <= block.length && block.isLoaded)
    return block.view(within, length)
  try {
    return content.readSync(body, offset, length)
  } catch {
    // A write does not need the old content, so it can replace one that is lost.
    return undefined
  }
}

/** Bytes of the new content within one block. */
function bytesAt(blobs: readonly BlobRef[], offset: number, length: number): Uint8Array {
  const within = offset % limits.blockBytes
  const blob = itemAt(blobs, Math.floor(offset / limits.blockBytes))
  return present(blob.view(within, length), 'the new content')
}

/** The index of the first byte in which two byte arrays of one length differ. They must differ. */
function firstDifference(a: Buffer, b: Uint8Array): number {
  let [from, to] = [0, a.length]
  while (to - from > 1) {
    const middle = (from + to) >>> 1
    if (a.subarray(from, middle).equals(b.subarray(from, middle))) from = middle
    else to = middle
  }
  return from
}

/** The same for the last byte. */
function lastDifference(a: Buffer, b: Uint8Array): number {
  let [from, to] = [0, a.length]
  while (to - from > 1) {
    const middle = (from + to) >>> 1
    if (a.subarray(middle, to).equals(b.subarray(middle, to))) to = middle
    else from = middle
  }
  return from
}

function patchOf({ body, oldSize, blobs, size }: Contents, start: number, end: number): Patch | undefined {
  const moved = size - oldSize
  const kept = [
    ...listExtents(body, { from: 0, to: start }),
    ...listExtents(body, { from: oldSize - end, to: oldSize }),
  ]
  // A hole that moves would need a piece of its own.
  if (kept.reduce((bytes, { length }) => bytes + length, 0) !== start + end) return undefined
  // Parts that were read from the store have handles of their own.
  const keptBlobs = new Map(kept.map(({ blob }) => [blob.hash, blob.length]))
  const storedBytes = [...keptBlobs.values()].reduce((bytes, length) => bytes + length, size - start - end)
  if (storedBytes > 2 * size) return undefined
  const pieces: RedoPiece[] = []
  const changed: BlobRef[] = []
  for (let at = start; at < size - end;) {
    const length = Math.min(size - end - at, limits.blockBytes - (at % limits.blockBytes))
    const bytes = bytesAt(blobs, at, length)
    // If a batch runs again, the hash shows that the new handle has the same content.
    const blob = BlobRef.copyOf(bytes, sha256(bytes))
    pieces.push([at, length, blob, 0])
    changed.push(blob)
    at += length
  }
  if (moved !== 0)
    for (const { offset, length, blob, casOffset } of kept)
      if (offset >= oldSize - end) pieces.push([offset + moved, length, blob, casOffset])
  return { size, pieces, blobs: changed }
}
