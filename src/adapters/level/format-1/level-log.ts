/**
 * Log files of LevelDB, including its manifest. The format is in LevelDB's `doc/log_format.md`. LevelDB
 * silently skips damaged records of a log, and loses acknowledged writes with them.
 */
import { Buffer } from 'node:buffer'
import { maskedCrc32c } from './crc32c.js'

const blockBytes = 32 * 1024
const headerBytes = 7
const sectorBytes = 512
const recordType = { full: 1, first: 2, middle: 3, last: 4 } as const

/**
 * The records up to the first damaged one. As in LevelDB, a record that is cut short by the end of the file
 * is left out.
 */
export function* logRecords(file: Buffer): Generator<Buffer, void> {
  let parts: Buffer[] = []
  for (const { at, type, end } of fragments(file)) {
    const part = file.subarray(at + headerBytes, end)
    if (type === recordType.full) yield part
    else if (type === recordType.first) parts = [part]
    else if (type === recordType.middle) parts.push(part)
    else yield Buffer.concat([...parts, part])
  }
}

/**
 * The offset of the first damaged fragment. A write that was cut short at the end of the file is not damage.
 */
export function findLogDamage(file: Buffer): number | undefined {
  let next = 0
  let isInRecord = false
  for (const { at, type, end } of fragments(file)) {
    if ((type === recordType.middle || type === recordType.last) !== isInRecord) return at
    isInRecord = type === recordType.first || type === recordType.middle
    next = end
  }
  next = skipTrailer(next)
  return next >= file.length || isCutShort(file, next) ? undefined : next
}

interface Fragment {
  readonly at: number
  readonly type: number
  readonly end: number
}

function* fragments(file: Buffer): Generator<Fragment, void> {
  for (let at = 0; ;) {
    at = skipTrailer(at)
    const fragment = readFragment(file, at)
    if (fragment === undefined) return
    yield fragment
    at = fragment.end
  }
}

/** Skips the rest of a block that has no room for a header. LevelDB leaves it empty. */
function skipTrailer(at: number): number {
  const left = blockBytes - (at % blockBytes)
  return left < headerBytes ? at + left : at
}

/** The fragment at an offset, if it is intact. */
function readFragment(file: Buffer, at: number): Fragment | undefined {
  if (at + headerBytes > file.length) return undefined
  const type = file.readUInt8(at + 6)
  const end = at + headerBytes + file.readUInt16LE(at + 4)
  if (!isType(type) || end > file.length || end > blockEnd(at)) return undefined
  return isWhole(file, at, end) ? { at, type, end } : undefined
}

function isType(type: number): boolean {
  return type >= recordType.full && type <= recordType.last
}

function isWhole(file: Buffer, at: number, end: number): boolean {
  return file.readUInt32LE(at) === maskedCrc32c(file, at + 6, end)
}

function blockEnd(at: number): number {
  return at - (at % blockBytes) + blockBytes
}

/** Whether the bytes from `at` to the end are the remains of an interrupted write. */
function isCutShort(file: Buffer, at: number): boolean {
  if (at + headerBytes > file.length) return true
  // After an interrupted write, a file can have its new size but zeros instead of bytes. If the zeros begin
  // at the start of a sector, they are a sector that lost its bytes, which is damage.
  if (file.subarray(at).every((byte) => byte === 0)) return at % sectorBytes !== 0
  const end = at + headerBytes + file.readUInt16LE(at + 4)
  if (!isType(file.readUInt8(at + 6)) || end <= file.length || end > blockEnd(at)) return false
  // Nothing follows an interrupted write: a whole fragment here means that the length is damaged.
  if (isWhole(file, at, file.length)) return false
  for (let other = at + 1; other + headerBytes <= file.length; other++)
    if (readFragment(file, other) !== undefined) return false
  return true
}
