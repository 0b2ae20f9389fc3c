import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { firstAtLeast, present } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import type { Place } from './memtable.js'

/** A page of the index: keys in order, and the places of their entries. */
export interface Page {
  readonly keys: string[]
  readonly places: Place[]
}

/** The size of a page's head: checksum, id of the page, number of entries. */
export const pageHeadBytes = 16
/** The most bytes that the numbers of an entry take. */
const numberBytes = 40

/**
 * The approximate size of an entry in a page. A key is stored without the prefix that it shares with the key
 * before it.
 */
export function entrySize(key: string, before: string | undefined): number {
  return key.length - (before === undefined ? 0 : sharedLength(key, before)) + 10
}

/** The memory in which pages are encoded, except for large ones. */
const scratch = Buffer.allocUnsafeSlow(levelLimits.encodedBytes)

/** Memory for the encoded form of these entries and `others` bytes. It is valid until the next call. */
export function pageMemory(
  keys: readonly string[],
  { from, to, others }: { readonly from: number; readonly to: number; readonly others: number },
): Buffer {
  let bound = others
  for (let i = from; i < to; i++) bound += keys[i]!.length + numberBytes
  return bound <= scratch.length ? scratch : Buffer.allocUnsafe(bound)
}

/**
 * Encodes the entries from `from` to before `to`. The page contains its id, so that no other page is mistaken
 * for it.
 */
export function encodePage(id: number, page: Page, from: number, to: number): Buffer {
  const bytes = pageMemory(page.keys, { from, to, others: pageHeadBytes })
  let at = pageHeadBytes
  let before = ''
  for (let i = from; i < to; i++) {
    const key = page.keys[i]!
    at = writeKey(bytes, key, sharedLength(key, before), at)
    at = writePlace(bytes, page.places[i]!, at)
    before = key
  }
  return finishPage(bytes, { id, count: to - from, end: at })
}

/** Writes the head of a page whose entries are in `bytes` up to `end`. Returns a copy, because the memory is used again. */
export function finishPage(
  bytes: Buffer,
  { id, count, end }: { readonly id: number; readonly count: number; readonly end: number },
): Buffer {
  bytes.writeDoubleLE(id, 4)
  bytes.writeUInt32LE(count, 12)
  bytes.writeUInt32LE(crc32(bytes.subarray(4, end)), 0)
  return Buffer.from(bytes.subarray(0, end))
}

/** Writes a key that shares its first `shared` characters with the key before it. Returns the offset after it. */
export function writeKey(bytes: Buffer, key: string, shared: number, at: number): number {
  let end = writeNumber(bytes, shared, at)
  end = writeNumber(bytes, key.length - shared, end)
  // Most keys are short, so a loop takes less time than a call that writes a text.
  for (let c = shared; c < key.length; c++) bytes[end++] = key.charCodeAt(c)
  return end
}

/** Returns the offset after the place. */
export function writePlace(bytes: Buffer, place: Place, at: number): number {
  let end = writeNumber(bytes, place.segment, at)
  end = writeNumber(bytes, place.offset, end)
  return writeNumber(bytes, place.length * 2 + (place.deleted ? 1 : 0), end)
}

export function pageChecksum(bytes: Buffer): number {
  return bytes.readUInt32LE(0)
}

/** Undefined unless the bytes are the page of this id and checksum. */
export function decodePage(bytes: Buffer, id: number, checksum: number): Page | undefined {
  return isPage(bytes, id, checksum) ? entriesOf(bytes) : undefined
}

/** The entries of a page whose checksum is known to be right. */
export function entriesOf(bytes: Buffer): Page {
  return decodeEntries(new EntryReader(bytes, pageHeadBytes, ''), countOf(bytes))
}

/** Whether the bytes are the page of this id and checksum. */
export function isPage(bytes: Buffer, id: number, checksum: number): boolean {
  if (bytes.length < pageHeadBytes || pageChecksum(bytes) !== checksum) return false
  return crc32(bytes.subarray(4)) === checksum && bytes.readDoubleLE(4) === id
}

/** The number of entries. */
export function countOf(bytes: Buffer): number {
  return bytes.readUInt32LE(12)
}

function decodeEntries(reader: EntryReader, count: number): Page {
  const page: Page = { keys: [], places: [] }
  for (let i = 0; i < count; i++) {
    reader.nextKey()
    page.keys.push(reader.key)
    page.places.push(reader.nextPlace())
  }
  return page
}

/** Entries from one mark to the next. */
const markInterval = 16

/**
 * A page in its encoded form, with the key of every sixteenth entry as a mark. A read decodes only the
 * entries after one mark. The page takes little more memory than its bytes. Decoded, its hundreds of keys and
 * places would take ten times as much.
 */
export class StoredPage {
  readonly bytes: Buffer
  readonly #count: number
  readonly #marks: string[] = []
  /** The offset of the entry of each mark. */
  readonly #starts: number[] = []

  private constructor(bytes: Buffer) {
    this.bytes = bytes
    this.#count = countOf(bytes)
    const reader = new EntryReader(bytes, pageHeadBytes, '')
    for (let i = 0; i < this.#count; i++) {
      const start = reader.at
      reader.nextKey()
      if (i % markInterval === 0) {
        this.#marks.push(reader.key)
        this.#starts.push(start)
      }
      reader.skipPlace()
    }
  }

  /** Undefined unless the bytes are the page of this id and checksum. */
  static open(bytes: Buffer, id: number, checksum: number): StoredPage | undefined {
    return isPage(bytes, id, checksum) ? new StoredPage(bytes) : undefined
  }

  get(key: string): Place | undefined {
    const mark = this.#markOf(key)
    const markKey = this.#marks[mark]
    if (markKey === undefined) return undefined
    const reader = this.#readerAt(mark)
    reader.skipKey()
    if (markKey === key) return reader.nextPlace()
    // The length of the prefix that the key shares with the previous entry. An entry that shares more with
    // the previous entry is below the key too. An entry that shares less is above it. So most entries need no
    // comparison.
    let matched = sharedLength(key, markKey)
    for (let left = this.#entriesBehind(mark) - 1; left > 0; left--) {
      reader.skipPlace()
      const shared = reader.nextNumber()
      const end = reader.nextNumber() + reader.at
      let at = reader.at
      reader.at = end
      if (shared < matched) return undefined
      if (shared > matched) continue
      while (at < end && this.bytes[at] === key.charCodeAt(matched)) {
        at++
        matched++
      }
      const isWhole = matched === key.length
      if (at === end && isWhole) return reader.nextPlace()
      if (at < end && (isWhole || this.bytes[at]! > key.charCodeAt(matched))) return undefined
    }
    return undefined
  }

  /**
   * Appends the entries with from ≤ key < to until `found` has `limit` entries. They come in ascending order,
   * or with `reverse` in descending order.
   */
  appendRange(
    { from, to, reverse }: { readonly from: string; readonly to: string; readonly reverse: boolean },
    found: (readonly [key: string, place: Place])[],
    limit: number,
  ): void {
    const step = reverse ? -1 : 1
    for (let mark = Math.max(0, this.#markOf(reverse ? to : from)); ; mark += step) {
      const markKey = this.#marks[mark]
      if (markKey === undefined || found.length >= limit || (!reverse && markKey >= to)) return
      const { keys, places } = this.#decodeFrom(mark, this.#entriesBehind(mark))
      const first = firstAtLeast(keys, from)
      const last = firstAtLeast(keys, to) - 1
      for (let k = reverse ? last : first; k >= first && k <= last && found.length < limit; k += step)
        found.push([present(keys[k], 'a key'), present(places[k], 'a place')])
      if (reverse && markKey < from) return
    }
  }

  #decodeFrom(mark: number, count: number): Page {
    return decodeEntries(this.#readerAt(mark), count)
  }

  /**
   * A reader that starts at a mark. The stored key of the entry lacks the prefix that it shares with the key
   * before it. The reader gets the mark's own key, which starts with this prefix.
   */
  #readerAt(mark: number): EntryReader {
    return new EntryReader(
      this.bytes,
      present(this.#starts[mark], 'the start of a mark'),
      present(this.#marks[mark], 'a mark'),
    )
  }

  #entriesBehind(mark: number): number {
    return Math.min(markInterval, this.#count - mark * markInterval)
  }

  /** The last mark that is not above the key; -1 when the key is below all entries. */
  #markOf(key: string): number {
    let low = 0
    let high = this.#marks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#marks[middle]! <= key) low = middle + 1
      else high = middle
    }
    return low - 1
  }
}

/** The number of characters at their start that two keys share. */
export function sharedLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length)
  let length = 0
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++
  return length
}

/** Writes a number with seven bits in each byte, the lowest first. Returns the offset after it. */
export function writeNumber(bytes: Buffer, value: number, at: number): number {
  let rest = value
  let place = at
  while (rest >= 0x80) {
    bytes[place++] = (rest % 0x80) + 0x80
    rest = Math.floor(rest / 0x80)
  }
  bytes[place++] = rest
  return place
}

/** Reads entries one after the other: the key of each, then its place. */
export class EntryReader {
  readonly #bytes: Buffer
  at: number
  /** The key that was read last. */
  key: string

  /** `key` starts with the prefix that the first entry shares with the one before it. */
  constructor(bytes: Buffer, at: number, key: string) {
    this.#bytes = bytes
    this.at = at
    this.key = key
  }

  skipKey(): void {
    this.nextNumber()
    const length = this.nextNumber()
    this.at += length
  }

  nextKey(): void {
    const shared = this.nextNumber()
    const length = this.nextNumber()
    this.at += length
    const rest = this.#bytes.toString('latin1', this.at - length, this.at)
    this.key = shared === 0 ? rest : this.key.slice(0, shared) + rest
  }

  nextPlace(): Place {
    const segment = this.nextNumber()
    const offset = this.nextNumber()
    const length = this.nextNumber()
    return { segment, offset, length: Math.floor(length / 2), deleted: length % 2 === 1 }
  }

  skipPlace(): void {
    for (let numbers = 3; numbers > 0; numbers--) while ((this.#bytes[this.at++] ?? 0) >= 0x80);
  }

  nextNumber(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const byte = this.#bytes[this.at++] ?? 0
      if (byte < 0x80) return value + byte * factor
      value += (byte - 0x80) * factor
      factor *= 0x80
    }
  }
}
