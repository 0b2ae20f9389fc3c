import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { levelLimits } from '../limits.js'
import { readEntry, readEntryHead, readFrame } from '../log/frame.js'
import type { FrameEntry } from '../log/frame.js'
import {
  asBuffer,
  blobKeyBytes,
  entryHeadBytes,
  entryHeadLength,
  entryKind,
  findFrame,
  frameHeaderBytes,
  fromBinary,
  indexKey,
  readFrameHeader,
} from '../log/segment-format.js'
import type { FrameHeader } from '../log/segment-format.js'
import type { SegmentFile } from '../log/segment-file.js'

const seqWidth = 8

/** Damaged bytes of a segment. */
export interface Damage {
  readonly offset: number
  readonly message: string
  /** Whether nothing intact follows in the segment. */
  readonly toEnd: boolean
  /** The event that the damaged entry seems to contain. */
  readonly event?: LostEvent
}

export interface LostEvent {
  readonly sessionId: string
  readonly seq: number
}

/** A frame, or its intact entries if it is damaged. */
export interface Salvaged {
  readonly offset: number
  /** Undefined when the header is damaged. */
  readonly header: FrameHeader | undefined
  /** The offset at which the next frame begins. */
  readonly end: number
  /** The entries that are intact to the last byte. Their `at` counts from `offset`. */
  readonly entries: readonly FrameEntry[]
  readonly damages: readonly Damage[]
}

export interface SalvageRange {
  readonly from: number
  readonly to: number
  /** All bytes from here on are zeros. */
  readonly dataEnd: number
  /** The number and the checksum of the last frame before the range. Undefined if they are unknown. */
  readonly before: { readonly commit: number; readonly chain: number } | undefined
}

/**
 * Reads all frames of a segment, and the intact entries of damaged ones. Every byte is verified. After
 * damage, this searches for the next frame at every byte.
 *
 * A frame counts only if its number is higher than those before it. For example, a stored file can be a copy
 * of a segment. The frames in its contents have lower numbers, so they are ignored.
 */
export async function* salvageFrames(
  file: SegmentFile,
  { from, to, dataEnd, before }: SalvageRange,
  seed: number,
): AsyncGenerator<Salvaged, void> {
  const reader = new WindowReader(file, to)
  let commit = before?.commit
  /** Undefined after damage, because the checksum of the frame before is then unknown. */
  let chain = before?.chain
  for (let at = from; at < to;) {
    const header = await headerAt(reader, at, seed)
    const fits =
      header !== undefined &&
      (commit === undefined || header.commit > commit) &&
      at + frameHeaderBytes + header.bodyBytes <= to
    if (!fits) {
      const end = await nextFrame(reader, at + 1, seed, commit)
      // A write to the wrong place can leave an earlier commit here. Its values must not replace newer ones.
      if (header !== undefined && commit !== undefined && header.commit <= commit) {
        const message = `${end - at} bytes are damaged: they have a second copy of commit ${header.commit}`
        const damages = [{ offset: at, message, toEnd: end === to }]
        yield { offset: at, header: undefined, end, entries: [], damages }
      } else yield await salvageRegion(reader, at, end, to)
      chain = undefined
      at = end
      continue
    }
    const end = at + frameHeaderBytes + header.bodyBytes
    const bytes = await reader.read(at, end - at)
    const damages: Damage[] = []
    const follows =
      chain === undefined || (commit !== undefined && header.commit === commit + 1 && header.chain === chain)
    if (!follows)
      damages.push({ offset: at, message: `commits before ${header.commit} are missing`, toEnd: false })
    const whole = readFrame(bytes, 0, header)
    const entries = whole ?? salvageEntries(bytes, header, at, damages)
    // The commit was being written into reserved space, so zeros follow instead of its end.
    const isCut = whole === undefined && end > dataEnd
    yield {
      offset: at,
      header,
      end,
      entries,
      damages: isCut ? damages.map((damage) => ({ ...damage, toEnd: true })) : damages,
    }
    commit = header.commit
    chain = header.checksum
    at = end
  }
}

async function headerAt(reader: WindowReader, at: number, seed: number): Promise<FrameHeader | undefined> {
  const bytes = await reader.read(at, frameHeaderBytes)
  return readFrameHeader(bytes, 0, seed)
}

/** The offset at which the next frame begins, or the end of the range. */
async function nextFrame(
  reader: WindowReader,
  from: number,
  seed: number,
  commit: number | undefined,
): Promise<number> {
  for (let at = from; at < reader.end; at += levelLimits.scannedBytes) {
    // Windows overlap by the size of a header. So a header at the end of a window is complete in it.
    const window = await reader.read(at, levelLimits.scannedBytes + frameHeaderBytes)
    for (let found = findFrame(window, 0); found >= 0; found = findFrame(window, found + 1)) {
      const header = readFrameHeader(window, found, seed)
      if (header !== undefined && (commit === undefined || header.commit > commit)) return at + found
    }
  }
  return reader.end
}

/**
 * Salvages bytes that do not begin with an intact header. If only the header is damaged, the entries after it
 * are intact.
 */
async function salvageRegion(
  reader: WindowReader,
  offset: number,
  end: number,
  to: number,
): Promise<Salvaged> {
  const entries: FrameEntry[] = []
  const size = end - offset
  // Entries are read one by one, because the region may be far larger than a commit.
  let at = frameHeaderBytes
  while (at + entryHeadBytes <= size) {
    const length = lengthAt(await reader.read(offset + at, entryHeadBytes), 0)
    if (at + length > size) break
    const entry = readEntry(await reader.read(offset + at, length), 0, length)
    if (entry === undefined) break
    entries.push({ kind: entry.kind, key: entry.key, at, length })
    at += length
  }
  const message =
    at === size
      ? 'the header of a commit is damaged; its entries are intact'
      : `${size - Math.min(at, size)} bytes are damaged`
  return { offset, header: undefined, end, entries, damages: [{ offset, message, toEnd: end === to }] }
}

/** The intact entries of a damaged frame. */
function salvageEntries(bytes: Buffer, header: FrameHeader, offset: number, damages: Damage[]): FrameEntry[] {
  const entries: FrameEntry[] = []
  const headsAreWhole = hasWholeHeads(bytes, header)
  let missed = 0
  let at = frameHeaderBytes
  while (at < bytes.length) {
    const entry = readEntry(bytes, at, bytes.length)
    if (entry !== undefined) {
      entries.push({ kind: entry.kind, key: entry.key, at, length: entry.length })
      at += entry.length
      continue
    }
    if (!headsAreWhole) {
      // If all remaining entries follow intact, this one is the only loss, because only its head was damaged.
      const next = nextEntry(bytes, at, header.entries - entries.length - missed - 1)
      const lost = (next ?? bytes.length) - at
      const message = `${lost} bytes of commit ${header.commit} are damaged or cannot be verified`
      damages.push({ offset: offset + at, message, toEnd: false })
      if (next === undefined) return entries
      missed++
      at = next
      continue
    }
    damages.push({ offset: offset + at, toEnd: false, ...seemsToBe(bytes, at) })
    at += lengthAt(bytes, at)
  }
  return entries
}

/** Whether the heads of all entries are intact, and with them the lengths of the entries. */
function hasWholeHeads(bytes: Buffer, header: FrameHeader): boolean {
  let checksum = 0
  let count = 0
  let at = frameHeaderBytes
  for (; at + entryHeadBytes <= bytes.length; at += lengthAt(bytes, at)) {
    checksum = crc32(bytes.subarray(at, at + entryHeadBytes), checksum)
    count++
  }
  return at === bytes.length && count === header.entries && checksum === header.bodyChecksum
}

/**
 * The offset after a damaged entry from which exactly `count` intact entries reach the end of the frame. The
 * damaged content may itself contain bytes that look like entries. With these, there would be more than
 * `count`.
 */
function nextEntry(bytes: Buffer, damaged: number, count: number): number | undefined {
  if (count < 1) return undefined
  for (let from = damaged + 1; from + entryHeadBytes <= bytes.length; from++) {
    if (readEntryHead(bytes, from, bytes.length) === undefined) continue
    let at = from
    let found = 0
    for (; at + entryHeadBytes <= bytes.length && found < count; found++) {
      const entry = readEntryHead(bytes, at, bytes.length)
      if (entry === undefined) break
      at += entry.length
    }
    if (found === count && at === bytes.length) return from
    // Another head is damaged at `at`. A start at any entry before it would end there too.
    if (found < count) from = Math.max(from, at - 1)
  }
  return undefined
}

function lengthAt(bytes: Buffer, at: number): number {
  const valueBytes = bytes.readUInt32LE(at + 9)
  return entryHeadLength(bytes.readUInt8(at), bytes.readUInt32LE(at + 5), valueBytes) + valueBytes
}

/** The likely identity of a damaged entry. Its key may be damaged too. */
function seemsToBe(bytes: Buffer, at: number): Pick<Damage, 'message' | 'event'> {
  const from = at + entryHeadBytes
  const kind = bytes.readUInt8(at)
  const keyBytes = bytes.readUInt32LE(at + 5)
  const name = indexKey(kind, bytes.toString('latin1', from, from + keyBytes)).slice(1)
  if (kind === entryKind.event) {
    const event = {
      sessionId: fromBinary(name.slice(0, -seqWidth)),
      seq: Number.parseInt(name.slice(-seqWidth), 36),
    }
    const isSeq = /^[0-9a-z]{8}$/.test(name.slice(-seqWidth))
    const message = `event ${event.seq} of session ${event.sessionId} is damaged`
    return isSeq ? { message, event } : { message: 'an event is damaged' }
  }
  if (kind === entryKind.put) return { message: `record ${fromBinary(name)} is damaged` }
  if (kind === entryKind.blob && keyBytes === blobKeyBytes)
    return { message: `blob sha256:${Buffer.from(name, 'latin1').toString('hex')} is damaged` }
  return { message: kind === entryKind.blob ? 'a blob is damaged' : 'a deletion is damaged' }
}

/** Reads a file in large pieces. Unreadable bytes become zeros, which never form a frame. */
class WindowReader {
  readonly end: number
  readonly #file: SegmentFile
  #window: Buffer = Buffer.alloc(0)
  #at = 0

  constructor(file: SegmentFile, end: number) {
    this.#file = file
    this.end = end
  }

  /** Reads `length` bytes, or fewer at the end. The bytes are valid until the next call. */
  async read(at: number, length: number): Promise<Buffer> {
    const to = Math.min(at + length, this.end)
    if (at < this.#at || to > this.#at + this.#window.length) {
      this.#window = await this.#load(
        at,
        Math.min(Math.max(to - at, levelLimits.scannedBytes), this.end - at),
      )
      this.#at = at
    }
    return this.#window.subarray(at - this.#at, to - this.#at)
  }

  async #load(at: number, length: number): Promise<Buffer> {
    try {
      const bytes = asBuffer(await this.#file.file.read(at, length))
      // The file became shorter while it was read, so zeros replace the missing bytes.
      return bytes.length === length ? bytes : Buffer.concat([bytes], length)
    } catch (error) {
      if (length <= levelLimits.unreadableBytes) return Buffer.alloc(length)
      if (error instanceof RangeError) throw error
    }
    const half = Math.ceil(length / 2 / levelLimits.unreadableBytes) * levelLimits.unreadableBytes
    return Buffer.concat([await this.#load(at, half), await this.#load(at + half, length - half)])
  }
}
