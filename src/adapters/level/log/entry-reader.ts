import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { itemAt } from '../../../engine/ports.js'
import type { ByteRange } from '../../../engine/ports.js'
import { damagedSegment } from '../errors.js'
import { levelLimits } from '../limits.js'
import { pieceChecksum, readEntry, readEntryHead } from './frame.js'
import type { Place } from '../index/memtable.js'
import {
  blobBytesOf,
  blobKeyBytes,
  blobPieceBytes,
  entryHeadLength,
  entryKind,
  fromBinary,
} from './segment-format.js'
import type { SegmentFile } from './segment-file.js'
import type { Segments } from './segments.js'

interface Span {
  readonly from: number
  readonly to: number
}

/** Reads entries at their places from the index. It verifies all bytes that it returns. */
export class EntryReader {
  readonly #segments: Pick<Segments, 'file'>
  /** The blob pieces of the last partial read. */
  #last: { readonly place: Place; readonly span: Span; readonly bytes: Buffer } | undefined
  /** The end of the last asynchronous read. The event loop had a turn then. */
  #turnAt = performance.now()

  constructor(segments: Pick<Segments, 'file'>) {
    this.#segments = segments
  }

  textSync(key: string, place: Place): string {
    const file = this.#segments.file(place.segment)
    return textOf(file, key, place, file.readSync(place.offset, place.length))
  }

  async text(key: string, place: Place): Promise<string> {
    const file = this.#segments.file(place.segment)
    return textOf(file, key, place, await this.#read(file, place.offset, place.length))
  }

  /**
   * The texts of several entries, in the given order. Entries that are close to each other are read together.
   */
  async texts(entries: readonly (readonly [key: string, place: Place])[]): Promise<string[]> {
    const texts: string[] = []
    const reads: Promise<void>[] = []
    for (let from = 0, to = 0; from < entries.length; from = to) {
      const begin = itemAt(entries, from)[1]
      let end = begin.offset
      for (; to < entries.length; to++) {
        const { segment, offset, length } = itemAt(entries, to)[1]
        const near = segment === begin.segment && offset >= end && offset - end <= levelLimits.gapBytes
        if (to > from && !(near && offset + length - begin.offset <= levelLimits.readBytes)) break
        end = offset + length
      }
      const [first, last] = [from, to]
      const file = this.#segments.file(begin.segment)
      const length = end - begin.offset
      const take = (bytes: Buffer): void => {
        for (let i = first; i < last; i++) {
          const [key, place] = itemAt(entries, i)
          const at = place.offset - begin.offset
          texts[i] = textOf(file, key, place, bytes.subarray(at, at + place.length))
        }
      }
      const bytes = this.#read(file, begin.offset, length)
      if (bytes instanceof Promise) reads.push(bytes.then(take))
      else take(bytes)
    }
    await Promise.all(reads)
    return texts
  }

  /**
   * Reads bytes of a file. A small read takes much less time than the wait for a turn of a busy event loop.
   * So small reads are synchronous, until it is time to give the event loop a turn.
   */
  #read(file: SegmentFile, offset: number, length: number): Buffer | Promise<Buffer> {
    if (length <= levelLimits.syncReadBytes && performance.now() - this.#turnAt < levelLimits.syncReadMs)
      return file.readSync(offset, length)
    return file.read(offset, length).finally(() => (this.#turnAt = performance.now()))
  }

  blobSync(key: string, place: Place, range: ByteRange): Uint8Array {
    const file = this.#segments.file(place.segment)
    const wanted = wantedOf(place, range)
    if (wanted.whole) return wholeBlob(file, key, place, file.readSync(place.offset, place.length), wanted)
    const known = this.#known(place, wanted)
    if (known !== undefined) return known
    const head = file.readSync(place.offset, wanted.headBytes)
    const { from, to } = wanted.span
    const bytes = file.readSync(place.offset + wanted.headBytes + from, to - from)
    return this.#part(file, key, place, wanted, head, bytes)
  }

  async blob(key: string, place: Place, range: ByteRange): Promise<Uint8Array> {
    const file = this.#segments.file(place.segment)
    const wanted = wantedOf(place, range)
    if (wanted.whole) {
      return wholeBlob(file, key, place, await file.read(place.offset, place.length), wanted)
    }
    const known = this.#known(place, wanted)
    if (known !== undefined) return known
    const { from, to } = wanted.span
    const [head, bytes] = await Promise.all([
      file.read(place.offset, wanted.headBytes),
      file.read(place.offset + wanted.headBytes + from, to - from),
    ])
    return this.#part(file, key, place, wanted, head, bytes)
  }

  #known(place: Place, { from, to }: Span): Uint8Array | undefined {
    const last = this.#last
    if (last?.place.segment !== place.segment || last.place.offset !== place.offset) return undefined
    if (from < last.span.from || to > last.span.to) return undefined
    return own(last.bytes.subarray(from - last.span.from, to - last.span.from))
  }

  #part(
    file: SegmentFile,
    key: string,
    place: Place,
    wanted: Wanted,
    head: Buffer,
    bytes: Buffer,
  ): Uint8Array {
    const entry = readEntryHead(head, 0, head.length)
    if (entry?.key !== key || entry.length !== place.length) throw damaged(file, key, place)
    const { span, from, to } = wanted
    for (let at = 0; at < bytes.length; at += blobPieceBytes) {
      const piece = bytes.subarray(at, at + blobPieceBytes)
      if (crc32(piece) !== pieceChecksum(head, 0, (span.from + at) / blobPieceBytes)) {
        throw damaged(file, key, place)
      }
    }
    // A caller that reads one part often reads the next one too.
    this.#last = { place, span, bytes }
    return own(bytes.subarray(from - span.from, to - span.from))
  }
}

interface Wanted extends Span {
  /** The size of the entry up to the bytes of the blob. */
  readonly headBytes: number
  /** The wanted range, extended to whole pieces. */
  readonly span: Span
  readonly whole: boolean
}

function wantedOf(place: Place, { offset, length }: ByteRange): Wanted {
  const size = blobBytesOf(place.length)
  const from = Math.min(offset, size)
  const to = Math.min(from + length, size)
  const first = Math.floor(from / blobPieceBytes) * blobPieceBytes
  const span = { from: first, to: Math.min(Math.ceil(to / blobPieceBytes) * blobPieceBytes, size) }
  const whole = size <= blobPieceBytes || span.to - span.from >= size * levelLimits.wholeBlobShare
  return { from, to, headBytes: entryHeadLength(entryKind.blob, blobKeyBytes, size), span, whole }
}

function wholeBlob(file: SegmentFile, key: string, place: Place, bytes: Buffer, wanted: Span): Uint8Array {
  const at = verified(file, key, place, bytes)
  return own(bytes.subarray(at + wanted.from, at + wanted.to))
}

/**
 * A part of a large buffer keeps the whole buffer in memory. So bytes that fill less than half of their
 * buffer are copied.
 */
function own(bytes: Buffer): Uint8Array {
  return bytes.length * 2 < bytes.buffer.byteLength ? new Uint8Array(bytes) : bytes
}

function textOf(file: SegmentFile, key: string, place: Place, bytes: Buffer): string {
  return bytes.toString('utf8', verified(file, key, place, bytes))
}

/**
 * Verifies an entry and returns the offset of its value in `bytes`.
 *
 * @throws EngineError `DATA_LOSS` when the entry is damaged, or has another key or length.
 */
function verified(file: SegmentFile, key: string, place: Place, bytes: Buffer): number {
  const entry = readEntry(bytes, 0, bytes.length)
  if (entry?.key !== key || entry.length !== place.length) throw damaged(file, key, place)
  return entry.valueAt
}

function damaged(file: SegmentFile, key: string, place: Place): Error {
  const name = key.slice(1)
  if (key[0] === 'b') {
    return damagedSegment(file.name, place.offset, { blob: Buffer.from(name, 'latin1').toString('hex') })
  }
  if (key[0] === 'r') return damagedSegment(file.name, place.offset, { key: fromBinary(name) })
  const sessionId = fromBinary(name.slice(0, -8))
  return damagedSegment(file.name, place.offset, {
    sessionId,
    seq: String(Number.parseInt(name.slice(-8), 36)),
  })
}
