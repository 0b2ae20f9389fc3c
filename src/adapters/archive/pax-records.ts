import type { Buffer } from 'node:buffer'
import { invalidArchive } from './errors.js'

/** Records of pax, which are text, by their keys. */
export type PaxRecords = ReadonlyMap<string, string>

/** Reads records up to the first without a length or key. Of records of one key the last counts. */
export function readPax(bytes: Buffer): PaxRecords {
  const records = new Map<string, string>()
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(0x20, at)
    if (space < 0 || space - at > maxLengthDigits) break
    const digits = bytes.toString('latin1', at, space)
    const end = at + Number(digits)
    if (!/^\d+$/.test(digits) || end > bytes.length) break
    const equals = bytes.indexOf(0x3d, space)
    if (equals < 0 || equals >= end) break
    records.set(bytes.toString('utf8', space + 1, equals), bytes.toString('utf8', equals + 1, end - 1))
    at = end
  }
  return records
}

const maxLengthDigits = 10

/** A size, which must be a safe integer; undefined when the records have none. */
export function paxSize(records: PaxRecords, name: string): number | undefined {
  const text = records.get('size') ?? ''
  if (text === '') return undefined
  const size = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(size))
    throw invalidArchive('the size of an entry is damaged or out of range', name)
  return size
}

/** Milliseconds since the epoch, from seconds with fractions; undefined when the records have none. */
export function paxTime(records: PaxRecords, name: string): number | undefined {
  const text = records.get('mtime')
  if (text === undefined) return undefined
  if (!/^-?\d{1,16}(\.\d*)?$/.test(text)) throw invalidArchive('the time of an entry is damaged', name)
  return Number(text) * 1000
}
