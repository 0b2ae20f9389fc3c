import { limits } from '../base/limits.js'
import { BlobRef } from './blob.js'

/**
 * The content of a file: nothing; one blob that is the whole content (at most one block); blocks; or a node
 * in storage that holds the blocks and is not loaded. Bodies are immutable: every function here that changes
 * one returns a new one and shares what did not change.
 */
export type Body = undefined | BlobRef | BlockBody | UnloadedBody

/** The blocks of a body. Only chunks of blocks that hold data stand in it, so holes cost nothing. */
export class BlockBody {
  /** Chunk numbers, ascending. */
  readonly chunkNumbers: readonly number[]
  /** At the same index: up to 1,024 blocks. */
  readonly chunks: readonly (readonly Block[])[]

  constructor(chunkNumbers: readonly number[], chunks: readonly (readonly Block[])[]) {
    this.chunkNumbers = chunkNumbers
    this.chunks = chunks
  }
}

export class UnloadedBody {
  readonly address: string
  /** null until it was loaded. */
  body: LoadedBody | null = null

  constructor(address: string) {
    this.address = address
  }
}

/** A hole; a blob from the block's start (a hole follows where it is shorter); or extents. */
export type Block = undefined | BlobRef | ExtentBlock

export class ExtentBlock {
  readonly extents: readonly Extent[]
  /** The SHA-256 of the block's bytes, once somebody asked. */
  id: string | undefined

  constructor(extents: readonly Extent[]) {
    this.extents = extents
  }
}

/** `length` bytes at `offset`, which are the blob's bytes from `casOffset` on. */
export interface Extent {
  readonly offset: number
  readonly length: number
  readonly blob: BlobRef
  readonly casOffset: number
}

/** Bytes to put into a body; without a blob, a hole. */
export interface Piece {
  readonly offset: number
  readonly length: number
  readonly blob: BlobRef | undefined
  readonly casOffset: number
}

export type LoadedBody = Exclude<Body, UnloadedBody>

/** The body with `piece` laid over it. */
export function splice(body: LoadedBody, piece: Piece): LoadedBody {
  const editor = new BlockEditor(body)
  for (let done = 0; done < piece.length;) {
    const position = piece.offset + done
    const within = position % limits.blockBytes
    const length = Math.min(limits.blockBytes - within, piece.length - done)
    const blockNumber = (position - within) / limits.blockBytes
    editor.set(
      blockNumber,
      spliceBlock(editor.get(blockNumber), {
        ...piece,
        offset: within,
        length,
        casOffset: piece.casOffset + done,
      }),
    )
    done += length
  }
  return editor.finish()
}

/** The body without any byte from `size` on. */
export function truncate(body: LoadedBody, size: number): LoadedBody {
  if (body === undefined || (body instanceof BlobRef && body.length <= size)) return body
  const editor = new BlockEditor(body)
  const within = size % limits.blockBytes
  const first = (size - within) / limits.blockBytes
  editor.cutAfter(within === 0 ? first : first + 1)
  if (within > 0) {
    const block = editor.get(first)
    if (block !== undefined) {
      editor.set(
        first,
        spliceBlock(block, {
          offset: within,
          length: limits.blockBytes - within,
          blob: undefined,
          casOffset: 0,
        }),
      )
    }
  }
  return editor.finish()
}

/** A body that is one blob of exactly the file's size says so, whatever way it came about. */
export function normalize(body: LoadedBody, size: number): LoadedBody {
  // A blob stands for the whole content only where it is all of it.
  if (body instanceof BlobRef) return body.length === size ? body : new BlockBody([0], [[body]])
  if (body === undefined) return body
  if (body.chunks.length === 0) return size === 0 ? undefined : body
  if (body.chunks.length > 1 || body.chunkNumbers[0] !== 0) return body
  const blocks = body.chunks[0]!
  const only = blocks.length === 1 ? blocks[0] : undefined
  return only instanceof BlobRef && only.length === size ? only : body
}

/** Calls `visit` for the data between `from` and `to`, in order; what is not visited is a hole. */
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
  for (const [index, number] of body.chunkNumbers.entries()) {
    const chunkStart = number * bytesPerChunk
    if (chunkStart >= range.to) return
    if (chunkStart + bytesPerChunk <= range.from) continue
    const blocks = body.chunks[index]!
    const firstBlock = Math.max(0, Math.floor((range.from - chunkStart) / limits.blockBytes))
    for (let i = firstBlock; i < blocks.length; i++) {
      const start = chunkStart + i * limits.blockBytes
      if (start >= range.to) return
      const block = blocks[i]
      if (block instanceof BlobRef) clip(start, block.length, block, 0)
      else if (block !== undefined)
        for (const e of block.extents) clip(start + e.offset, e.length, e.blob, e.casOffset)
    }
  }
}

export function blockAt(body: LoadedBody, blockNumber: number): Block {
  if (body === undefined) return undefined
  if (body instanceof BlobRef) return blockNumber === 0 ? body : undefined
  const index = body.chunkNumbers.indexOf(Math.floor(blockNumber / limits.blocksPerChunk))
  return index < 0 ? undefined : body.chunks[index]![blockNumber % limits.blocksPerChunk]
}

export function countExtents(body: LoadedBody): number {
  let count = 0
  forEachExtent(body, { from: 0, to: Number.MAX_SAFE_INTEGER }, () => {
    count++
  })
  return count
}

/** A copy of a body's block table in which only the chunks that are touched are copied. */
class BlockEditor {
  readonly #numbers: number[]
  readonly #chunks: (readonly Block[])[]
  readonly #copied = new Set<number>()

  constructor(body: LoadedBody) {
    if (body instanceof BlockBody) {
      this.#numbers = [...body.chunkNumbers]
      this.#chunks = [...body.chunks]
    } else {
      this.#numbers = body === undefined ? [] : [0]
      this.#chunks = body === undefined ? [] : [[body]]
    }
  }

  get(blockNumber: number): Block {
    const index = this.#numbers.indexOf(Math.floor(blockNumber / limits.blocksPerChunk))
    return index < 0 ? undefined : this.#chunks[index]![blockNumber % limits.blocksPerChunk]
  }

  set(blockNumber: number, block: Block): void {
    const blocks = this.#writableChunk(Math.floor(blockNumber / limits.blocksPerChunk))
    const within = blockNumber % limits.blocksPerChunk
    while (blocks.length < within) blocks.push(undefined)
    blocks[within] = block
  }

  /** Drops every block from `blockCount` on. */
  cutAfter(blockCount: number): void {
    const lastChunk = Math.floor(blockCount / limits.blocksPerChunk)
    while (this.#numbers.length > 0 && this.#numbers.at(-1)! > lastChunk) {
      this.#numbers.pop()
      this.#chunks.pop()
    }
    if (this.#numbers.at(-1) === lastChunk) {
      const blocks = this.#writableChunk(lastChunk)
      blocks.length = Math.min(blocks.length, blockCount % limits.blocksPerChunk)
    }
  }

  finish(): BlockBody {
    const numbers: number[] = []
    const chunks: (readonly Block[])[] = []
    for (const [index, number] of this.#numbers.entries()) {
      const blocks = this.#chunks[index]!
      if (this.#copied.has(number)) {
        const writable = blocks as Block[]
        while (writable.length > 0 && writable.at(-1) === undefined) writable.pop()
      }
      if (blocks.length === 0) continue
      numbers.push(number)
      chunks.push(blocks)
    }
    return new BlockBody(numbers, chunks)
  }

  #writableChunk(number: number): Block[] {
    let index = this.#numbers.findLastIndex((candidate) => candidate <= number)
    if (index < 0 || this.#numbers[index] !== number) {
      index++
      this.#numbers.splice(index, 0, number)
      this.#chunks.splice(index, 0, [])
      this.#copied.add(number)
    } else if (!this.#copied.has(number)) {
      this.#chunks[index] = [...this.#chunks[index]!]
      this.#copied.add(number)
    }
    return this.#chunks[index] as Block[]
  }
}

function spliceBlock(block: Block, piece: Piece): Block {
  const { offset, length, blob, casOffset } = piece
  const end = offset + length
  const wholeBlob = blob !== undefined && offset === 0 && casOffset === 0 && length === blob.length
  const extents =
    block === undefined
      ? []
      : block instanceof BlobRef
        ? [{ offset: 0, length: block.length, blob: block, casOffset: 0 }]
        : block.extents
  const last = extents.at(-1)
  if (wholeBlob && (last === undefined || last.offset + last.length <= end)) return blob
  const next: Extent[] = []
  let placed = blob === undefined
  for (const extent of extents) {
    const extentEnd = extent.offset + extent.length
    if (extent.offset < offset) {
      next.push(extentEnd <= offset ? extent : { ...extent, length: offset - extent.offset })
    }
    if (!placed && extentEnd > offset) {
      next.push({ offset, length, blob: blob!, casOffset })
      placed = true
    }
    if (extentEnd > end) {
      const skip = Math.max(0, end - extent.offset)
      next.push(
        skip === 0
          ? extent
          : { offset: end, length: extentEnd - end, blob: extent.blob, casOffset: extent.casOffset + skip },
      )
    }
  }
  if (!placed) next.push({ offset, length, blob: blob!, casOffset })
  if (next.length === 0) return undefined
  const only = next.length === 1 ? next[0]! : undefined
  return only !== undefined && only.offset === 0 && only.casOffset === 0 && only.length === only.blob.length
    ? only.blob
    : new ExtentBlock(next)
}
