import { Buffer } from 'node:buffer'
import { itemAt } from '../../engine/ports.js'
import { invalidArchive } from './errors.js'

/** A tar consists of blocks of this size. */
export const blockBytes = 512

/**
 * Checks the headers of one entry for damage that the parser would misread. These are its own header and the
 * preceding extension headers. For example, the parser reads a number up to its first invalid digit, and
 * reads a damaged pax record as another name or ignores it. A header has a checksum, but pax records have
 * none. Throws INVALID_ARCHIVE.
 *
 * Adds the records of global headers to `globals`, because the parser applies them only to some entries.
 */
export function checkHeaders(headers: Uint8Array, name: string, globals: Map<string, string>): void {
  for (let at = 0; at + blockBytes <= headers.length; at += blockBytes) {
    const header = headers.subarray(at, at + blockBytes)
    const type = itemAt(header, typeOffset)
    if (!isNumber(header, size) || !isNumber(header, mode))
      throw invalidArchive('the size or mode of an entry is damaged', name)
    if (type === oldNamesType)
      throw invalidArchive('lists of names of old versions of GNU tar (type N) are not supported', name)
    if (!aheadTypes.has(type)) continue
    const start = at + blockBytes
    const length = numberIn(header, size)
    if (paxTypes.has(type)) {
      const own = ownName(headers)
      const records = recordsOf(headers.subarray(start, start + length), own)
      for (const [key, value] of records) if (type === globalType) setGlobal(globals, key, value, own)
    }
    at += Math.ceil(length / blockBytes) * blockBytes
  }
}

type Field = readonly [start: number, end: number]
const nameBytes = 100
const mode: Field = [100, 108]
const size: Field = [124, 136]
const typeOffset = 156
/** Types of pax headers: `x` for one entry, `g` for all entries that follow. */
const paxTypes = new Set(Buffer.from('xg'))
const globalType = 0x67
/** Records of the path, target or size of one entry. In a global header, programs read them differently. */
const onlyForOne = /^(?:path|linkpath|size|GNU\.sparse\..*)$/s
/** Types of headers whose content describes a later entry: pax headers and the long names of GNU. */
const aheadTypes = new Set(Buffer.from('xgKL'))
/** A list of names in old tars of GNU, which the parser takes for one long name. */
const oldNamesType = 0x4e

/**
 * Accepts octal digits up to a space, a NUL or the end of the field. Also accepts any number in base 256,
 * because the reader refuses numbers that are not safe integers.
 */
function isNumber(header: Uint8Array, [start, end]: Field): boolean {
  let at = start
  if (itemAt(header, at) & 0x80) return true
  while (at < end && isBlank(itemAt(header, at))) at++
  while (at < end && isOctal(itemAt(header, at))) at++
  return at === end || isBlank(itemAt(header, at))
}

function isOctal(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x37
}

function isBlank(byte: number): boolean {
  return byte === 0 || byte === 0x20
}

/**
 * Returns the name in the entry's own header, which is the last one. The parser's name may come from a
 * damaged record.
 */
function ownName(headers: Uint8Array): string {
  const [name = ''] = Buffer.from(headers.subarray(-blockBytes).subarray(0, nameBytes)).toString().split('\0')
  return name
}

function numberIn(header: Uint8Array, [start, end]: Field): number {
  if (itemAt(header, start) & 0x80)
    return header.subarray(start + 1, end).reduce((sum, byte) => sum * 256 + byte, 0)
  const text = Buffer.from(header.subarray(start, end)).toString('latin1')
  return Number.parseInt(text.replace(/^[ \0]+/, '') || '0', 8)
}

function setGlobal(globals: Map<string, string>, key: string, value: string, name: string): void {
  if (onlyForOne.test(key))
    throw invalidArchive(`a global header has the record ${JSON.stringify(key)} for all entries`, name)
  globals.set(key, value)
}

/**
 * The keys and values of pax records, such as `14 path=a.txt\n`: the length in bytes, a key and a value. Zeros may
 * follow the last record. Throws INVALID_ARCHIVE for others.
 */
function recordsOf(records: Uint8Array, name: string): readonly (readonly [key: string, value: string])[] {
  const found: [string, string][] = []
  for (let at = 0; at < records.length;) {
    if (records[at] === 0 && records.subarray(at).every((byte) => byte === 0)) break
    const space = records.indexOf(0x20, at)
    const digits = Buffer.from(records.subarray(at, Math.min(space, at + 10))).toString('latin1')
    const end = at + (/^\d{1,9}$/.test(digits) ? Number(digits) : 0)
    const equals = records.indexOf(0x3d, space)
    if (space < 0 || equals < 0 || equals >= end || end > records.length || records[end - 1] !== 0x0a)
      throw invalidArchive('a record of a pax header is damaged', name)
    found.push([textOf(records, space + 1, equals), textOf(records, equals + 1, end - 1)])
    at = end
  }
  return found
}

function textOf(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString()
}
