import { Buffer } from 'node:buffer'
import { levelLimits } from '../limits.js'
import { checksum } from './checksum.js'
import {
  blobKeyBytes,
  blobPieceBytes,
  entryChecksum,
  entryHeadBytes,
  entryHeadLength,
  entryKind,
  frameHeaderBytes,
  indexKey,
  pieceCount,
  writeFrameHeader,
} from './segment-format.js'
import type { EntryKind, FrameHeader } from './segment-format.js'

/**
 * The place of an entry in a frame. `at` is the offset of its first byte from the start of the frame, and
 * `length` the size of the whole entry.
 */
export interface FrameEntry {
  readonly kind: EntryKind
  /** The key in the form that the index uses. */
  readonly key: string
  readonly at: number
  readonly length: number
}

/** The fields of the header that are known only when the frame is written. */
export type FramePlace = Pick<FrameHeader, 'commit' | 'syncedTo' | 'chain'>

/** Builds the bytes of one frame. It copies its arguments immediately, so they may change afterwards. */
export class FrameBuilder {
  readonly entries: FrameEntry[] = []
  #bytes: Buffer
  #end = frameHeaderBytes
  #checksum = 0

  /**
   * `expected` is an estimate of the entries' bytes, which are allocated in advance. More are allocated when
   * needed.
   */
  constructor(expected: number = levelLimits.expectedFrameBytes) {
    this.#bytes = memoryFor(frameHeaderBytes + expected)
  }

  get length(): number {
    return this.#end
  }

  /** Adds an entry with a text. Each character of `key` is one byte. `value` is written as UTF-8. */
  text(kind: EntryKind, key: string, value: string): void {
    const valueBytes = Buffer.byteLength(value)
    const at = this.#begin(kind, key, valueBytes, entryHeadBytes + key.length + valueBytes)
    this.#bytes.write(value, at + entryHeadBytes + key.length)
    this.#finish(kind, key, at, this.#end)
  }

  /**
   * Adds the deletion of a key. The deleted entries may be in segments up to `origin`; 0 is the segment of
   * this frame.
   */
  deletion(kind: EntryKind, key: string, origin: number): void {
    const at = this.#begin(kind, key, 4, entryHeadBytes + key.length + 4)
    this.#bytes.writeUInt32LE(origin, at + entryHeadBytes + key.length)
    this.#finish(kind, key, at, this.#end)
  }

  blob(hash: string, content: Uint8Array): void {
    const key = Buffer.from(hash, 'hex').toString('latin1')
    if (key.length !== blobKeyBytes) throw new RangeError('the name of a blob is not a SHA-256 hash')
    const headBytes = entryHeadLength(entryKind.blob, blobKeyBytes, content.length)
    const at = this.#begin(entryKind.blob, key, content.length, headBytes + content.length)
    this.#bytes.set(content, at + headBytes)
    let place = at + entryHeadBytes + blobKeyBytes
    for (let piece = 0; piece < pieceCount(content.length); piece++) {
      const from = at + headBytes + piece * blobPieceBytes
      const to = Math.min(from + blobPieceBytes, this.#end)
      place = this.#bytes.writeUInt32LE(checksum(this.#bytes, from, to), place)
    }
    this.#finish(entryKind.blob, key, at, at + headBytes)
  }

  /** Adds a copy of an entry from another place. The caller has verified the entry. */
  copy(kind: EntryKind, key: string, entry: Uint8Array): void {
    this.#reserve(entry.length)
    const at = this.#end
    this.#bytes.set(entry, at)
    this.#end += entry.length
    this.#checksum = checksum(this.#bytes, at, at + entryHeadBytes, this.#checksum)
    this.entries.push({ kind, key, at, length: entry.length })
  }

  /** Completes the frame with its header. Returns its bytes, and the checksum that the next frame records. */
  seal(place: FramePlace, seed: number): { readonly bytes: Buffer; readonly checksum: number } {
    const bytes = this.#bytes.subarray(0, this.#end)
    const header = {
      bodyBytes: this.#end - frameHeaderBytes,
      commit: place.commit,
      syncedTo: place.syncedTo,
      entries: this.entries.length,
      bodyChecksum: this.#checksum,
      chain: place.chain,
    }
    return { bytes, checksum: writeFrameHeader(bytes, header, seed) }
  }

  #begin(kind: EntryKind, key: string, valueBytes: number, length: number): number {
    this.#reserve(length)
    const at = this.#end
    this.#bytes[at] = kind
    this.#bytes.writeUInt32LE(key.length, at + 5)
    this.#bytes.writeUInt32LE(valueBytes, at + 9)
    this.#bytes.write(key, at + entryHeadBytes, 'latin1')
    this.#end += length
    return at
  }

  #finish(kind: EntryKind, key: string, at: number, checkedEnd: number): void {
    this.#bytes.writeUInt32LE(entryChecksum(kind, this.#bytes, at, checkedEnd), at + 1)
    this.#checksum = checksum(this.#bytes, at, at + entryHeadBytes, this.#checksum)
    this.entries.push({ kind, key: indexKey(kind, key), at, length: this.#end - at })
  }

  #reserve(length: number): void {
    const needed = this.#end + length
    if (needed <= this.#bytes.length) return
    const larger = memoryFor(Math.max(needed, this.#bytes.length * 2))
    this.#bytes.copy(larger, 0, 0, this.#end)
    this.#bytes = larger
  }
}

let slab = Buffer.alloc(0)
let slabUsed = 0

/** Memory for a frame. Small frames share a slab, which costs less than the same memory in small pieces. */
function memoryFor(length: number): Buffer {
  if (length > levelLimits.slabShareBytes) return Buffer.allocUnsafeSlow(length)
  if (slabUsed + length > slab.length) {
    slab = Buffer.allocUnsafeSlow(levelLimits.slabBytes)
    slabUsed = 0
  }
  slabUsed += length
  return slab.subarray(slabUsed - length, slabUsed)
}

/**
 * The entries of the frame whose header is at `at`, or undefined unless every byte is intact. `bytes` must
 * contain the whole frame.
 */
export function readFrame(bytes: Buffer, at: number, header: FrameHeader): readonly FrameEntry[] | undefined {
  const end = at + frameHeaderBytes + header.bodyBytes
  const entries: FrameEntry[] = []
  let heads = 0
  let place = at + frameHeaderBytes
  while (place < end) {
    const entry = readEntry(bytes, place, end)
    if (entry === undefined) return undefined
    heads = checksum(bytes, place, place + entryHeadBytes, heads)
    entries.push({ kind: entry.kind, key: entry.key, at: place - at, length: entry.length })
    place += entry.length
  }
  return entries.length === header.entries && heads === header.bodyChecksum ? entries : undefined
}

export interface Entry {
  readonly kind: EntryKind
  /** The key in the form that the index uses. */
  readonly key: string
  readonly length: number
  /** The offset at which its value begins. */
  readonly valueAt: number
}

/** The entry at `at`, verified to its last byte. Undefined if it is damaged or ends after `limit`. */
export function readEntry(bytes: Buffer, at: number, limit: number): Entry | undefined {
  const head = readEntryHead(bytes, at, limit)
  if (head === undefined || at + head.length > limit) return undefined
  if (head.kind === entryKind.blob) {
    const valueBytes = at + head.length - head.valueAt
    for (let from = 0; from < valueBytes; from += blobPieceBytes) {
      const to = Math.min(from + blobPieceBytes, valueBytes)
      const found = checksum(bytes, head.valueAt + from, head.valueAt + to)
      if (found !== pieceChecksum(bytes, at, from / blobPieceBytes)) return undefined
    }
  }
  return head
}

/** As `readEntry`, but it does not read the bytes of a blob, which may be missing. */
export function readEntryHead(bytes: Buffer, at: number, limit: number): Entry | undefined {
  if (at + entryHeadBytes > limit || limit > bytes.length) return undefined
  const kind = bytes.readUInt8(at)
  if (kind < entryKind.put || kind > entryKind.deleteBlob) return undefined
  const keyBytes = bytes.readUInt32LE(at + 5)
  const valueBytes = bytes.readUInt32LE(at + 9)
  const headBytes = entryHeadLength(kind, keyBytes, valueBytes)
  const checkedBytes = kind === entryKind.blob ? headBytes : headBytes + valueBytes
  if (at + checkedBytes > limit) return undefined
  if (entryChecksum(kind, bytes, at, at + checkedBytes) !== bytes.readUInt32LE(at + 1)) return undefined
  const key = bytes.toString('latin1', at + entryHeadBytes, at + entryHeadBytes + keyBytes)
  const length = headBytes + valueBytes
  return { kind: kind as EntryKind, key: indexKey(kind, key), length, valueAt: at + headBytes }
}

/** The checksum of a piece of the blob whose entry begins at `at`. */
export function pieceChecksum(bytes: Buffer, at: number, piece: number): number {
  return bytes.readUInt32LE(at + entryHeadBytes + blobKeyBytes + 4 * piece)
}
