import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import type { Place } from './memtable.js'

/** A page of the index: keys in order, and where their entries stand. */
export interface Page {
  readonly keys: string[]
  readonly places: Place[]
}

/** Checksum, id of the page, number of entries. */
const headBytes = 16
/** The most that the numbers of an entry take. */
const numberBytes = 40

/** About the bytes that an entry takes in a page; keys share their beginning with the one before. */
export function entrySize(key: string, before: string | undefined): number {
  return key.length - (before === undefined ? 0 : sharedLength(key, before)) + 10
}

/** Entries `from` to `to`. The id is in the page, so that no other page can be taken for it. */
export function encodePage(id: number, page: Page, from: number, to: number): Buffer {
  let bound = headBytes
  for (let i = from; i < to; i++) bound += page.keys[i]!.length + numberBytes
  const bytes = Buffer.allocUnsafe(bound)
  bytes.writeDoubleLE(id, 4)
  bytes.writeUInt32LE(to - from, 12)
  let at = headBytes
  let before = ''
  for (let i = from; i < to; i++) {
    const key = page.keys[i]!
    const place = page.places[i]!
    const shared = sharedLength(key, before)
    at = writeNumber(bytes, shared, at)
    at = writeNumber(bytes, key.length - shared, at)
    at += bytes.write(shared === 0 ? key : key.slice(shared), at, 'latin1')
    at = writeNumber(bytes, place.segment, at)
    at = writeNumber(bytes, place.offset, at)
    at = writeNumber(bytes, place.length * 2 + (place.deleted ? 1 : 0), at)
    before = key
  }
  bytes.writeUInt32LE(crc32(bytes.subarray(4, at)), 0)
  return bytes.subarray(0, at)
}

export function pageChecksum(bytes: Buffer): number {
  return bytes.readUInt32LE(0)
}

/** Undefined unless the bytes are the page of this id and checksum. */
export function decodePage(bytes: Buffer, id: number, checksum: number): Page | undefined {
  if (bytes.length < headBytes || pageChecksum(bytes) !== checksum) return undefined
  if (crc32(bytes.subarray(4)) !== checksum || bytes.readDoubleLE(4) !== id) return undefined
  const count = bytes.readUInt32LE(12)
  const page: Page = { keys: [], places: [] }
  const reader = new NumberReader(bytes, headBytes)
  let before = ''
  for (let i = 0; i < count; i++) {
    const shared = reader.next()
    const rest = reader.text(reader.next())
    const key = shared === 0 ? rest : before.slice(0, shared) + rest
    const segment = reader.next()
    const offset = reader.next()
    page.keys.push(key)
    const length = reader.next()
    page.places.push({ segment, offset, length: Math.floor(length / 2), deleted: length % 2 === 1 })
    before = key
  }
  return page
}

function sharedLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length)
  let length = 0
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++
  return length
}

/** Seven bits in each byte, the lowest first. */
function writeNumber(bytes: Buffer, value: number, at: number): number {
  let rest = value
  let place = at
  while (rest >= 0x80) {
    bytes[place++] = (rest % 0x80) + 0x80
    rest = Math.floor(rest / 0x80)
  }
  bytes[place++] = rest
  return place
}

class NumberReader {
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes
    this.#at = at
  }

  next(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const byte = this.#bytes[this.#at++] ?? 0
      if (byte < 0x80) return value + byte * factor
      value += (byte - 0x80) * factor
      factor *= 0x80
    }
  }

  text(length: number): string {
    this.#at += length
    return this.#bytes.toString('latin1', this.#at - length, this.#at)
  }
}
