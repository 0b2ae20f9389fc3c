import { itemAt, onlyItem } from '../base/present.js'
import { firstAtLeast, firstWhere } from '../base/ascending.js'
import { runAtOnce, type Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { BlobRef } from './blob.js'
import {
  blockAt,
  BlockBody,
  ExtentBlock,
  indexOfChunk,
  type Block,
  type Extent,
  type LoadedBody,
} from './body.js'

/** A range to write into a body. If it has no blob, it is a hole. */
export interface Piece {
  readonly offset: number
  readonly length: number
  readonly blob: BlobRef | undefined
  readonly casOffset: number
}

/** The rough memory of a piece in a body: its extent, its blob, and their block. */
const pieceBytes = 200
/** The memory of a number or reference in a list. */
const itemBytes = 8

/** The body with pieces written over it, in order. The cost of n pieces in one block is O(n log n). */
export function layOver(body: LoadedBody, pieces: readonly Piece[]): LoadedBody {
  const only = onlyItem(pieces)
  if (only?.blob !== undefined && isInOneBlock(only)) return layOverBlock(body, only)
  return runAtOnce(layOverInSteps(body, pieces))
}

/** Like {@link layOver}, in steps if each piece is in one block. */
export function* layOverInSteps(body: LoadedBody, pieces: readonly Piece[]): Steps<LoadedBody, undefined> {
  const editor = new BlockEditor(body)
  if (pieces.every(isInOneBlock)) {
    for (const [blockNumber, parts] of byBlock(pieces)) {
      editor.lay(blockNumber, flatten(parts))
      yield
    }
    return editor.finish()
  }
  let current = -1
  let parts: Piece[] = []
  const add = (blockNumber: number, part: Piece): void => {
    if (blockNumber !== current) {
      if (parts.length > 0) editor.lay(current, parts)
      current = blockNumber
      parts = []
    }
    parts.push(part)
  }
  // The flattened pieces do not overlap, so the parts of a block come one after the other.
  for (const piece of flatten(pieces)) {
    if (piece.blob === undefined) editor.forEachWithin(piece, add)
    else forEachBlock(piece, add)
  }
  if (parts.length > 0) editor.lay(current, parts)
  return editor.finish()
}

/** Whether a piece has bytes, and all of them are in one block. */
export function isInOneBlock({ offset, length }: Piece): boolean {
  return length > 0 && (offset % limits.blockBytes) + length <= limits.blockBytes
}

/** Pieces that are each in one block, by block in ascending order, with their offsets within it. */
function byBlock(pieces: readonly Piece[]): [number, Piece[]][] {
  const blocks = new Map<number, Piece[]>()
  for (const { offset, length, blob, casOffset } of pieces) {
    const within = offset % limits.blockBytes
    const number = (offset - within) / limits.blockBytes
    const part = { offset: within, length, blob, casOffset }
    const parts = blocks.get(number)
    if (parts === undefined) blocks.set(number, [part])
    else parts.push(part)
  }
  return [...blocks].sort(([a], [b]) => a - b)
}

/** The body with data written over one block. */
function layOverBlock(body: LoadedBody, { offset, length, blob, casOffset }: Piece): BlockBody {
  const within = offset % limits.blockBytes
  const blockNumber = (offset - within) / limits.blockBytes
  const block = spliceBlock(blockAt(body, blockNumber), [{ offset: within, length, blob, casOffset }])
  const { chunkNumbers, chunks } = body instanceof BlockBody ? body : bodyOfBlock(body)
  const number = Math.floor(blockNumber / limits.blocksPerChunk)
  const index = firstAtLeast(chunkNumbers, number)
  const isNew = chunkNumbers[index] !== number
  const blocks = isNew ? [] : itemAt(chunks, index).slice()
  const at = blockNumber % limits.blocksPerChunk
  while (blocks.length < at) blocks.push(undefined)
  blocks[at] = block
  const madeBytes = madeBytesOf(body) + pieceBytes + itemBytes * (blocks.length + chunks.length)
  if (isNew)
    return new BlockBody(
      chunkNumbers.toSpliced(index, 0, number),
      chunks.toSpliced(index, 0, blocks),
      madeBytes,
    )
  return new BlockBody(chunkNumbers, chunks.with(index, blocks), madeBytes)
}

/** The bytes that are new in a body, and that no tree has counted. */
function madeBytesOf(body: LoadedBody): number {
  return body instanceof BlockBody ? body.madeBytes : 0
}

function bodyOfBlock(block: BlobRef | undefined): BlockBody {
  return block === undefined ? new BlockBody([], []) : new BlockBody([0], [[block]])
}

/** The visible parts of overlapping pieces, sorted and without overlaps. Later pieces cover earlier ones. */
function flatten(pieces: readonly Piece[], from = 0, to = pieces.length): readonly Piece[] {
  if (to - from <= 1) {
    const piece = to > from ? pieces[from] : undefined
    return piece !== undefined && piece.length > 0 ? [piece] : []
  }
  const middle = (from + to) >>> 1
  return cover(flatten(pieces, from, middle), flatten(pieces, middle, to))
}

/** Merges two sorted lists without overlaps: all of `above`, and the uncovered parts of `below`. */
function cover(below: readonly Piece[], above: readonly Piece[]): readonly Piece[] {
  const lastBelow = below.at(-1)
  const [firstAbove] = above
  if (firstAbove === undefined) return below
  if (lastBelow === undefined) return above
  if (endOf(lastBelow) <= firstAbove.offset) return [...below, ...above]
  const covered: Piece[] = []
  let index = 0
  let rest: Piece | undefined = below[0]
  for (const top of above) {
    while (rest !== undefined && endOf(rest) <= top.offset) {
      covered.push(rest)
      rest = below[++index]
    }
    if (rest !== undefined && rest.offset < top.offset) {
      covered.push({ ...rest, length: top.offset - rest.offset })
    }
    covered.push(top)
    const end = endOf(top)
    while (rest !== undefined && endOf(rest) <= end) rest = below[++index]
    if (rest !== undefined && rest.offset < end) rest = startingAt(rest, end)
  }
  for (; rest !== undefined; rest = below[++index]) covered.push(rest)
  return covered
}

function endOf({ offset, length }: Piece): number {
  return offset + length
}

function startingAt(piece: Piece, offset: number): Piece {
  const skip = offset - piece.offset
  // Spreading the piece would cost ten times as much.
  return { offset, length: piece.length - skip, blob: piece.blob, casOffset: piece.casOffset + skip }
}

/** Cuts a piece at block boundaries. Offsets of the parts are within their block. */
export function forEachBlock(piece: Piece, visit: (blockNumber: number, part: Piece) => void): void {
  for (let done = 0; done < piece.length;) {
    const position = piece.offset + done
    const within = position % limits.blockBytes
    const length = Math.min(limits.blockBytes - within, piece.length - done)
    visit((position - within) / limits.blockBytes, {
      offset: within,
      length,
      blob: piece.blob,
      casOffset: piece.casOffset + done,
    })
    done += length
  }
}

/** The body without any byte from `size` on. */
export function truncate(body: LoadedBody, size: number): LoadedBody {
  if (body === undefined || (body instanceof BlobRef && body.length <= size)) return body
  return layOver(body, [
    { offset: size, length: Number.MAX_SAFE_INTEGER - size, blob: undefined, casOffset: 0 },
  ])
}

/**
 * Gives a body its normal form. A body that is one blob of exactly the file's size becomes that blob, however
 * it was built.
 */
export function normalize(body: LoadedBody, size: number): LoadedBody {
  // A blob is a body by itself only if it is the whole content.
  if (body instanceof BlobRef) return body.length === size ? body : new BlockBody([0], [[body]])
  if (body === undefined) return body
  if (body.chunks.length === 0) return size === 0 ? undefined : body
  if (body.chunks.length > 1 || body.chunkNumbers[0] !== 0) return body
  const [blocks = []] = body.chunks
  const only = onlyItem(blocks)
  return only instanceof BlobRef && only.length === size ? only : body
}

/** A copy of a body's block table. Only the chunks that change are copied. */
class BlockEditor {
  readonly #numbers: number[]
  readonly #chunks: (readonly Block[])[]
  readonly #copied = new Set<number>()
  #madeBytes: number

  constructor(body: LoadedBody) {
    this.#madeBytes = madeBytesOf(body)
    const { chunkNumbers, chunks } = body instanceof BlockBody ? body : bodyOfBlock(body)
    this.#numbers = [...chunkNumbers]
    this.#chunks = [...chunks]
  }

  /** Writes parts over a block. They must be sorted and must not overlap. */
  lay(blockNumber: number, parts: readonly Piece[]): void {
    this.#set(blockNumber, spliceBlock(this.#get(blockNumber), parts))
    this.#madeBytes += parts.length * pieceBytes
  }

  /** Like {@link forEachBlock}, for a hole, but visits only the blocks that contain data. */
  forEachWithin(hole: Piece, visit: (blockNumber: number, part: Piece) => void): void {
    const { blockBytes, blocksPerChunk } = limits
    const from = hole.offset
    const to = from + hole.length
    const firstBlock = Math.floor(from / blockBytes)
    const lastBlock = Math.floor((to - 1) / blockBytes)
    for (
      let i = firstAtLeast(this.#numbers, Math.floor(firstBlock / blocksPerChunk));
      i < this.#numbers.length;
    ) {
      const chunk = itemAt(this.#chunks, i)
      const chunkStart = itemAt(this.#numbers, i) * blocksPerChunk
      if (chunkStart > lastBlock) return
      const end = Math.min(lastBlock + 1, chunkStart + chunk.length)
      for (let block = Math.max(firstBlock, chunkStart); block < end; block++) {
        const start = block * blockBytes
        const offset = Math.max(0, from - start)
        const length = Math.min(blockBytes, to - start) - offset
        if (chunk[block - chunkStart] === undefined) continue
        visit(block, { offset, length, blob: undefined, casOffset: 0 })
      }
      i++
    }
  }

  #get(blockNumber: number): Block {
    const index = indexOfChunk(this.#numbers, blockNumber)
    return index < 0 ? undefined : this.#chunks[index]?.[blockNumber % limits.blocksPerChunk]
  }

  #set(blockNumber: number, block: Block): void {
    const blocks = this.#writableChunk(Math.floor(blockNumber / limits.blocksPerChunk))
    const within = blockNumber % limits.blocksPerChunk
    while (blocks.length < within) blocks.push(undefined)
    blocks[within] = block
  }

  finish(): BlockBody {
    const numbers: number[] = []
    const chunks: (readonly Block[])[] = []
    for (const [index, number] of this.#numbers.entries()) {
      const blocks = itemAt(this.#chunks, index)
      if (this.#copied.has(number)) {
        const writable = blocks as Block[]
        while (writable.length > 0 && writable.at(-1) === undefined) writable.pop()
      }
      if (blocks.length === 0) continue
      if (this.#copied.has(number)) this.#madeBytes += itemBytes * blocks.length
      numbers.push(number)
      chunks.push(blocks)
    }
    return new BlockBody(numbers, chunks, this.#madeBytes + itemBytes * 2 * chunks.length)
  }

  #writableChunk(number: number): Block[] {
    const index = firstAtLeast(this.#numbers, number)
    if (this.#numbers[index] !== number) {
      this.#numbers.splice(index, 0, number)
      this.#chunks.splice(index, 0, [])
      this.#copied.add(number)
    } else if (!this.#copied.has(number)) {
      this.#chunks[index] = itemAt(this.#chunks, index).slice()
      this.#copied.add(number)
    }
    return this.#chunks[index] as Block[]
  }
}

function spliceBlock(block: Block, parts: readonly Piece[]): Block {
  const onlyPart = onlyItem(parts)
  if (block instanceof ExtentBlock && onlyPart?.blob !== undefined) {
    const { last } = block
    const { offset, length, blob, casOffset } = onlyPart
    const extent: Extent = { offset, length, blob, casOffset }
    if (last.offset + last.length <= extent.offset && !continues(last, extent)) return block.with(extent)
  }
  const extents =
    block === undefined
      ? []
      : block instanceof BlobRef
        ? [{ offset: 0, length: block.length, blob: block, casOffset: 0 }]
        : block.extents
  const next = onlyPart === undefined ? joined(cover(extents, parts)) : spliced(extents, onlyPart)
  if (next.length === 0) return undefined
  const only = onlyItem(next)
  return only !== undefined && only.offset === 0 && only.casOffset === 0 && only.length === only.blob.length
    ? only.blob
    : new ExtentBlock(next)
}

/** Writes one piece over extents. */
function spliced(extents: readonly Extent[], { offset, length, blob, casOffset }: Piece): Extent[] {
  const end = offset + length
  // Extents before `first` end at or before the piece. Extents from `behind` on start at or after its end.
  const first = firstWhere(extents, (extent) => extent.offset + extent.length > offset)
  const behind = firstWhere(extents, (extent) => extent.offset >= end)
  const next = extents.slice(0, first)
  const before = extents[first]
  if (before !== undefined && before.offset < offset) next.push({ ...before, length: offset - before.offset })
  if (blob !== undefined) join(next, { offset, length, blob, casOffset })
  const after = behind > first ? extents[behind - 1] : undefined
  if (after !== undefined && after.offset + after.length > end) {
    const skip = end - after.offset
    join(next, {
      offset: end,
      length: after.length - skip,
      blob: after.blob,
      casOffset: after.casOffset + skip,
    })
  }
  const rest = extents[behind]
  if (rest !== undefined) join(next, rest)
  return rest === undefined ? next : next.concat(extents.slice(behind + 1))
}

function joined(pieces: readonly Piece[]): Extent[] {
  const extents: Extent[] = []
  for (const piece of pieces) if (piece.blob !== undefined) join(extents, piece as Extent)
  return extents
}

/** Appends an extent, or extends the last one if the new one continues it in both the file and the blob. */
function join(extents: Extent[], extent: Extent): void {
  const last = extents.at(-1)
  if (last !== undefined && continues(last, extent))
    extents[extents.length - 1] = { ...last, length: last.length + extent.length }
  else extents.push(extent)
}

/** Whether an extent continues another one, in both the file and the blob. */
function continues(last: Extent, { offset, blob, casOffset }: Extent): boolean {
  return (
    last.offset + last.length === offset &&
    last.casOffset + last.length === casOffset &&
    sameBlob(last.blob, blob)
  )
}

/** Compares by content. Replay and loading create other handles, but must get the same extents. */
function sameBlob(a: BlobRef, b: BlobRef): boolean {
  return a === b || (a.length === b.length && a.hash === b.hash)
}
