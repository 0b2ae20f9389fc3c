import { Buffer } from 'node:buffer'
import { onlyItem } from '../../base/present.js'
import { EngineError, invalid } from '../../base/errors.js'
import { parseExpectedHash } from '../../base/hash.js'
import { parseMode, parseSize, readList, oneOf } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { BlobRef } from '../../cas/blob.js'
import { checkFileSize, StagedBlobs, toBytes } from '../../cas/staging.js'
import { FileNode, noAttributes } from '../../tree/node.js'
import { admitAhead } from '../usage/session-bytes.js'
import type { BorrowedBlobs } from './borrowed.js'
import type { Compaction } from './compaction.js'
import type { Core } from '../core.js'
import { eventTypes, type Redo, type RedoPiece } from '../../records/event.js'
import { checkGuard, guardNames, type HashGuard } from './guards.js'
import { makeParents } from './parents.js'
import type { Plan, PlanState } from './plan.js'
import { resolve } from '../reads/resolve.js'
import { fileOrMissing, type FileContent } from './writes.js'

/** A range of a file and its new content: pass exactly one of the three fields. */
export interface SegmentChunk {
  /** New bytes. */
  readonly data?: {
    /** The first byte in the file, counted from 0. */
    readonly offset: number
    /** The new content, as text in UTF-8 or as bytes. */
    readonly content: FileContent
  }
  /** A range that reads as zeros and takes no space. */
  readonly hole?: {
    /** The first byte in the file, counted from 0. */
    readonly offset: number
    /** The number of bytes. */
    readonly length: number
  }
  /**
   * A range whose bytes the session or its base has already: the bytes of the blob `hash` from `casOffset`
   * on.
   */
  readonly borrowed?: {
    /** The first byte in the file, counted from 0. */
    readonly offset: number
    /** The number of bytes. */
    readonly length: number
    /** The hash of the blob, `sha256:<hex>`, as `getCasExtents` returns it. */
    readonly hash: string
    /** The first byte in the blob, counted from 0; 0 by default. */
    readonly casOffset?: number
  }
}

/**
 * Changes of ranges of one file. All other bytes keep their values. A missing file is created, with its
 * parents.
 */
export interface SegmentWriteRequest extends HashGuard {
  /** Absolute path in the session, such as `/src/a.ts`. */
  readonly path: string
  /** In any order. If two of them overlap, the later one wins. */
  readonly segments: readonly SegmentChunk[]
  /** The size of the file afterwards, in bytes; absent: its old size, or more if the data needs it. */
  readonly logicalSize?: number
  /** Permission bits, 0 to 0o7777; absent keeps them, and gives a new file 0o644. */
  readonly mode?: number
}

export const segmentWriteShape = new Shape<SegmentWriteRequest>({
  path: true,
  segments: true,
  logicalSize: true,
  mode: true,
  ...guardNames,
})

const chunkShape = new Shape<SegmentChunk>({ data: true, hole: true, borrowed: true })
const dataShape = new Shape<NonNullable<SegmentChunk['data']>>({ offset: true, content: true })
const holeShape = new Shape<NonNullable<SegmentChunk['hole']>>({ offset: true, length: true })
const borrowedShape = new Shape<NonNullable<SegmentChunk['borrowed']>>({
  offset: true,
  length: true,
  hash: true,
  casOffset: true,
})

interface ParsedChunk {
  readonly offset: number
  readonly length: number
  /** For data: the blob that contains it. */
  blob: BlobRef | undefined
  /** For a borrowed chunk: the hash of its blob, in hex. */
  readonly hash: string | undefined
  casOffset: number
}

/** The chunks of one file, checked, with their data copied and cut into blobs. */
export class StagedSegments extends StagedBlobs {
  readonly chunks: readonly Readonly<ParsedChunk>[]
  /** The number of chunks in the request. If some cross block boundaries, `chunks` has more. */
  readonly requested: number

  constructor(request: SegmentWriteRequest, core: Core, field: string) {
    const parser = new ChunkParser()
    const given = readList(`${field}.segments`, request.segments, limits.segments, 'chunks')
    for (const [index, chunk] of given.entries())
      parser.add(chunk as SegmentChunk, `${field}.segments[${index}]`)
    const { chunks, blobs } = parser.finish()
    super(blobs, core)
    this.chunks = chunks
    this.requested = given.length
  }

  /** The hashes of all borrowed blobs, in hex. */
  get borrowed(): string[] {
    return this.chunks.flatMap(({ hash }) => hash ?? [])
  }
}

interface SegmentParts {
  readonly staged: StagedSegments
  readonly borrowed: BorrowedBlobs
  readonly compaction: Compaction
}

export function planSegments(
  core: Core,
  state: PlanState,
  request: SegmentWriteRequest,
  { staged, borrowed, compaction }: SegmentParts,
): Plan {
  const at = resolve(state.tree, request.path, true)
  checkGuard(core, request.path, at.node, request.expectedHash)
  const file = fileOrMissing(at, request.path)
  const mode = request.mode === undefined ? undefined : parseMode(request.mode)
  const before = file ?? emptyFile
  const size = sizeAfter(before, request, staged.chunks)
  checkFileSize(size, core.maxFileBytes)
  admitAhead(core, state, staged)
  staged.blobs()
  const brought = new Set<BlobRef>()
  const pieces = staged.chunks.map(({ offset, length, blob, hash, casOffset }): RedoPiece => {
    if (hash === undefined) return [offset, length, blob ?? 0, casOffset]
    const found = borrowed.get(core, state, before, hash)
    if (casOffset + length > found.length)
      throw invalid(
        'segments',
        `a borrowed chunk ends at ${casOffset + length}, after the end of its content at ${found.length}`,
      )
    if (borrowed.brings(found)) brought.add(found)
    return [offset, length, found, casOffset]
  })
  const patch = compaction.of(state, before, {
    size,
    pieces: pieces.filter(([, length]) => length > 0),
    blobs: staged.toCommit(),
  })
  const { path } = at
  const redo: Redo[] = []
  if (file === undefined) {
    redo.push(...makeParents(core, at, request.path))
    redo.push(['w', path, mode ?? 0o644, core.ids.newIno(), 0])
  } else if (mode !== undefined && mode !== file.mode) redo.push(['c', path, mode])
  if (patch.pieces.length > 0 || size !== before.size) redo.push(['p', path, size, patch.pieces])
  if (redo.length === 0) return undefined
  return {
    type: eventTypes.patchSegments,
    details: { paths: [path], skippedPaths: [] },
    redo,
    blobs: [...patch.blobs, ...brought],
  }
}

const emptyFile = new FileNode(noAttributes, 0, undefined)

function sizeAfter(
  before: FileNode,
  { logicalSize }: SegmentWriteRequest,
  chunks: readonly Readonly<ParsedChunk>[],
): number {
  let dataEnd = 0
  let end = 0
  for (const { offset, length, blob, hash } of chunks) {
    end = Math.max(end, offset + length)
    if (blob !== undefined || hash !== undefined) dataEnd = Math.max(dataEnd, offset + length)
  }
  const size =
    logicalSize === undefined ? Math.max(before.size, dataEnd) : parseSize('logicalSize', logicalSize)
  if (end > size)
    throw invalid(
      'segments',
      `a chunk ends at ${end}, after the end of the file at ${size}: omit logicalSize, or make it larger`,
    )
  return size
}

const noBytes = BlobRef.of(Buffer.alloc(0))

/** Checks chunks one by one and packs their data. */
class ChunkParser {
  readonly #chunks: ParsedChunk[] = []
  readonly #blobs: BlobRef[] = []
  /** Small chunks that will share a blob, and the bytes of each. */
  #packed: ParsedChunk[] = []
  #parts: Uint8Array[] = []
  #packBytes = 0

  add(chunk: SegmentChunk, field: string): void {
    const copy = chunkShape.readPart(chunk, field)
    if (Object.keys(copy).length === 1) {
      const { data, hole, borrowed } = copy
      if (data !== undefined) return this.#data(data, `${field}.data`)
      if (hole !== undefined) return this.#hole(hole, `${field}.hole`)
      if (borrowed !== undefined) return this.#borrowed(borrowed, `${field}.borrowed`)
    }
    throw invalid(field, oneOf(copy, 'data, hole, borrowed'))
  }

  finish(): { chunks: readonly Readonly<ParsedChunk>[]; blobs: readonly BlobRef[] } {
    this.#flush()
    return { chunks: this.#chunks, blobs: this.#blobs }
  }

  #data(data: NonNullable<SegmentChunk['data']>, field: string): void {
    const copy = dataShape.readPart(data, field)
    const bytes = toBytes(copy.content, `${field}.content`)
    const { offset, length } = parseRange({ offset: copy.offset, length: bytes.byteLength }, field)
    // A chunk of no length only sets the end of the data.
    if (length === 0) this.#chunks.push({ offset, length, blob: noBytes, hash: undefined, casOffset: 0 })
    // Cut at block boundaries, so that a whole block is one blob.
    for (let done = 0, count: number; done < length; done += count) {
      const position = offset + done
      count = Math.min(limits.blockBytes - (position % limits.blockBytes), length - done)
      const chunk = { offset: position, length: count, blob: undefined, hash: undefined, casOffset: 0 }
      this.#chunks.push(chunk)
      this.#stage(count === length ? bytes : bytes.subarray(done, done + count), chunk)
    }
  }

  #hole(hole: NonNullable<SegmentChunk['hole']>, field: string): void {
    const { offset, length } = parseRange(holeShape.readPart(hole, field), field)
    this.#chunks.push({ offset, length, blob: undefined, hash: undefined, casOffset: 0 })
  }

  #borrowed(borrowed: NonNullable<SegmentChunk['borrowed']>, field: string): void {
    const copy = borrowedShape.readPart(borrowed, field)
    const hash = parseExpectedHash(copy.hash, `${field}.hash`)
    if (hash === '') throw invalid(`${field}.hash`, 'must be sha256:<64 hex digits>')
    const { offset, length } = parseRange(copy, field)
    const casOffset = parseSize(`${field}.casOffset`, copy.casOffset ?? 0)
    this.#chunks.push({ offset, length, blob: undefined, hash, casOffset })
  }

  #stage(bytes: Uint8Array, chunk: ParsedChunk): void {
    if (bytes.byteLength >= limits.ownBlobBytes) {
      chunk.blob = BlobRef.copyOf(bytes)
      this.#blobs.push(chunk.blob)
      return
    }
    if (this.#packBytes + bytes.byteLength > limits.blockBytes) this.#flush()
    this.#packed.push(chunk)
    this.#parts.push(bytes)
    this.#packBytes += bytes.byteLength
  }

  #flush(): void {
    if (this.#packed.length === 0) return
    const only = onlyItem(this.#parts)
    const blob =
      only === undefined ? BlobRef.of(Buffer.concat(this.#parts, this.#packBytes)) : BlobRef.copyOf(only)
    let offset = 0
    for (const chunk of this.#packed) {
      chunk.blob = blob
      chunk.casOffset = offset
      offset += chunk.length
    }
    this.#blobs.push(blob)
    this.#packed = []
    this.#parts = []
    this.#packBytes = 0
  }
}

function parseRange(
  range: { readonly offset: number; readonly length: number },
  field: string,
): { offset: number; length: number } {
  const offset = parseSize(`${field}.offset`, range.offset)
  const length = parseSize(`${field}.length`, range.length)
  parseSize(`${field}.offset + length`, offset + length)
  return { offset, length }
}

/** Whether an error lets a mutation be skipped. */
export function isConflict(thrown: unknown): boolean {
  return thrown instanceof EngineError && thrown.reason === 'HASH_MISMATCH'
}
