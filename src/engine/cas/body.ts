import { itemAt } from '../base/present.js'
import { firstAtLeast, firstWhere } from '../base/ascending.js'
import { limits } from '../base/limits.js'
import { BlobRef } from './blob.js'

/**
 * The content of a file. It is one of these: nothing; one blob that is the whole content (at most one block);
 * blocks; or a stored node that contains the blocks and is not loaded. Bodies are immutable. Every function
 * here that changes one returns a new one, which shares the unchanged parts.
 */
export type Body = undefined | BlobRef | BlockBody | UnloadedBody

/** The blocks of a body. It has only the chunks that contain data, so holes cost nothing. */
export class BlockBody {
  /** Chunk numbers, ascending. */
  readonly chunkNumbers: readonly number[]
  /** The blocks of each chunk, at the same index: up to 1,024. */
  readonly chunks: readonly (readonly Block[])[]
  /** The rough size in bytes of the lists and pieces that are new in this body. 0 once a tree has counted them. */
  #madeBytes: number

  constructor(chunkNumbers: readonly number[], chunks: readonly (readonly Block[])[], madeBytes = 0) {
    this.chunkNumbers = chunkNumbers
    this.chunks = chunks
    this.#madeBytes = madeBytes
  }

  get madeBytes(): number {
    return this.#madeBytes
  }

  /** Returns `madeBytes` once, so that only the first tree with this body counts them. */
  takeMadeBytes(): number {
    const bytes = this.#madeBytes
    this.#madeBytes = 0
    return bytes
  }
}

export class UnloadedBody {
  readonly address: string
  /** null until it is loaded. */
  body: LoadedBody | null = null

  constructor(address: string) {
    this.address = address
  }
}

/** A hole, a blob, or extents. A blob starts at the block's start, and a hole follows if it is shorter. */
export type Block = undefined | BlobRef | ExtentBlock

export class ExtentBlock {
  /** Later versions of the block may share the list. Then it continues after the last extent of this block. */
  readonly #list: Extent[]
  /** The number of extents. */
  readonly count: number
  /** The SHA-256 of the block's bytes, once computed. */
  id: string | undefined

  /** Extents in ascending order, at least one. The block keeps the list. */
  constructor(list: Extent[]) {
    this.#list = list
    this.count = list.length
  }

  /** A copy of the extents, in order. */
  get extents(): Extent[] {
    return this.#list.slice(0, this.count)
  }

  get last(): Extent {
    return itemAt(this.#list, this.count - 1)
  }

  /** The block with one more extent at its end. Adding to the newest version of a block takes constant time. */
  with(extent: Extent): ExtentBlock {
    const list = this.#list.length === this.count ? this.#list : this.extents
    list.push(extent)
    return new ExtentBlock(list)
  }

  /** Visits the extents that end after `from` and start before `to`. Both are offsets in the block. */
  visit(from: number, to: number, visit: (extent: Extent) => void): void {
    const list = this.#list
    for (let i = firstWhere(list, ({ offset, length }) => offset + length > from); i < this.count; i++) {
      const extent = itemAt(list, i)
      if (extent.offset >= to) return
      visit(extent)
    }
  }
}

/** The `length` bytes at `offset` in the block. They are the blob's bytes from `casOffset` on. */
export interface Extent {
  readonly offset: number
  readonly length: number
  readonly blob: BlobRef
  readonly casOffset: number
}

export type LoadedBody = Exclude<Body, UnloadedBody>

/** Calls `visit` for the data between `from` and `to`, in order; gaps between visits are holes. */
export function forEachExtent(
  body: LoadedBody,
  range: { from: number; to: number },
  visit: (offset: number, length: number, blob: BlobRef, casOffset: number) => void,
): void {
  const clip = (start: number, length: number, blob: BlobRef, casOffset: number): void => {
    const skip = Math.max(0, range.from - start)
    const count = Math.min(start + length, range.to) - start - skip
    if (count > 0) visit(start + skip, count, blob, casOffset + skip)
  }
  if (body === undefined) return
  if (body instanceof BlobRef) return clip(0, body.length, body, 0)
  const bytesPerChunk = limits.blockBytes * limits.blocksPerChunk
  const numbers = body.chunkNumbers
  for (
    let index = firstAtLeast(numbers, Math.floor(range.from / bytesPerChunk));
    index < numbers.length;
    index++
  ) {
    const chunkStart = itemAt(numbers, index) * bytesPerChunk
    if (chunkStart >= range.to) return
    const blocks = itemAt(body.chunks, index)
    const firstBlock = Math.max(0, Math.floor((range.from - chunkStart) / limits.blockBytes))
    for (let i = firstBlock; i < blocks.length; i++) {
      const start = chunkStart + i * limits.blockBytes
      if (start >= range.to) return
      const block = blocks[i]
      if (block instanceof BlobRef) clip(start, block.length, block, 0)
      else
        block?.visit(range.from - start, range.to - start, ({ offset, length, blob, casOffset }) =>
          clip(start + offset, length, blob, casOffset),
        )
    }
  }
}

export function blockAt(body: LoadedBody, blockNumber: number): Block {
  if (body === undefined) return undefined
  if (body instanceof BlobRef) return blockNumber === 0 ? body : undefined
  const index = indexOfChunk(body.chunkNumbers, blockNumber)
  return index < 0 ? undefined : body.chunks[index]?.[blockNumber % limits.blocksPerChunk]
}

/** The index of a block's chunk; below 0 when there is none. */
export function indexOfChunk(chunkNumbers: readonly number[], blockNumber: number): number {
  const number = Math.floor(blockNumber / limits.blocksPerChunk)
  const index = firstAtLeast(chunkNumbers, number)
  return chunkNumbers[index] === number ? index : -1
}

export function listExtents(body: LoadedBody, range: { from: number; to: number }): Extent[] {
  const extents: Extent[] = []
  forEachExtent(body, range, (offset, length, blob, casOffset) => {
    extents.push({ offset, length, blob, casOffset })
  })
  return extents
}

/** Whether both lists contain the same ranges of the same blobs. */
export function sameExtents(a: readonly Extent[], b: readonly Extent[]): boolean {
  return (
    a.length === b.length &&
    a.every((extent, i) => {
      const other = b[i]
      return (
        other !== undefined &&
        sameBlob(extent.blob, other.blob) &&
        extent.offset === other.offset &&
        extent.length === other.length &&
        extent.casOffset === other.casOffset
      )
    })
  )
}

/** A body that leaves memory and is loaded again has other handles of its blobs. */
function sameBlob(a: BlobRef, b: BlobRef): boolean {
  return a === b || (a.knownHash !== undefined && a.knownHash === b.knownHash)
}

/** Whether two bodies are the same object or stored node. Neither is loaded for that, so others may be the same too. */
export function isSameNode(a: Body, b: Body): boolean {
  if (a === b) return true
  if (a instanceof UnloadedBody && b instanceof UnloadedBody) return a.address === b.address
  return inMemory(a) === inMemory(b)
}

/** A body in memory is wrapped once it is stored. */
function inMemory(body: Body): LoadedBody | null {
  return body instanceof UnloadedBody ? body.body : body
}

/** Whether both bodies contain the same ranges of the same blobs. */
export function sameBody(a: LoadedBody, b: LoadedBody): boolean {
  if (a === b) return true
  if (a instanceof BlobRef && b instanceof BlobRef) return sameBlob(a, b)
  if (!(a instanceof BlockBody && b instanceof BlockBody)) return false
  return (
    a.chunks.length === b.chunks.length &&
    a.chunkNumbers.every((number, i) => number === b.chunkNumbers[i]) &&
    a.chunks.every((blocks, i) => sameBlocks(blocks, itemAt(b.chunks, i)))
  )
}

function sameBlocks(a: readonly Block[], b: readonly Block[]): boolean {
  return a === b || (a.length === b.length && a.every((block, i) => sameBlock(block, b[i])))
}

function sameBlock(a: Block, b: Block): boolean {
  if (a === b) return true
  if (a instanceof BlobRef && b instanceof BlobRef) return sameBlob(a, b)
  if (!(a instanceof ExtentBlock && b instanceof ExtentBlock)) return false
  return a.count === b.count && sameExtents(a.extents, b.extents)
}

/** Whether a body has more extents than `limit`. */
export function hasMoreExtents(body: BlockBody, limit: number): boolean {
  let count = 0
  for (const blocks of body.chunks) {
    for (const block of blocks) {
      if (block !== undefined) count += block instanceof BlobRef ? 1 : block.count
      if (count > limit) return true
    }
  }
  return false
}
