/**
 * Encodes and decodes the bytes of segment files. Numbers are little-endian; every checksum is a CRC-32. A
 * segment is a header, then frames without gaps. A frame is one commit: a header, then entries without gaps.
 * README.md has a table of each.
 */
import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { checksum } from './checksum.js'

export const segmentHeaderBytes = 64
export const frameHeaderBytes = 40
/**
 * The size of an entry's head: kind, checksum, length of the key, length of the value. The key and the value
 * follow.
 */
export const entryHeadBytes = 13
/** A blob has a checksum for each piece of this size, so that a part of it can be read and verified. */
export const blobPieceBytes = 64 * 1024
/** The size of a SHA-256 hash, which is the key of a blob. */
export const blobKeyBytes = 32

/** The kinds of entries. The numbers are part of the disk format. */
export const entryKind = {
  put: 1,
  delete: 2,
  event: 3,
  deleteEvents: 4,
  blob: 5,
  deleteBlob: 6,
} as const

export type EntryKind = (typeof entryKind)[keyof typeof entryKind]

const segmentMagic = 'fkspseg2'
const frameMagic = 0x32_46_4b_46

export interface SegmentHeader {
  readonly storeId: string
  readonly segment: number
  /** The number of the first commit in the segment. */
  readonly firstCommit: number
  /** The checksum of the last frame in the segment before, or 0 in the first segment. */
  readonly chain: number
}

export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(segmentHeaderBytes)
  bytes.write(segmentMagic, 0, 'latin1')
  bytes.write(header.storeId.replaceAll('-', ''), 8, 'hex')
  bytes.writeUInt32LE(header.segment, 24)
  writeLong(bytes, header.firstCommit, 28)
  bytes.writeUInt32LE(header.chain, 36)
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 60)), 60)
  return bytes
}

/** Undefined unless the bytes are an intact header. */
export function decodeSegmentHeader(raw: Uint8Array): SegmentHeader | undefined {
  const bytes = asBuffer(raw)
  if (bytes.length < segmentHeaderBytes || bytes.toString('latin1', 0, 8) !== segmentMagic) return undefined
  if (bytes.readUInt32LE(60) !== crc32(bytes.subarray(0, 60))) return undefined
  const id = bytes.toString('hex', 8, 24)
  return {
    storeId: [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20)].join('-'),
    segment: bytes.readUInt32LE(24),
    firstCommit: readLong(bytes, 28),
    chain: bytes.readUInt32LE(36),
  }
}

export interface FrameHeader {
  readonly bodyBytes: number
  readonly commit: number
  /** The newest commit that was known to be on the disk when this frame was written. */
  readonly syncedTo: number
  readonly entries: number
  /** The checksum of the heads of all entries. The heads contain the checksums of the rest. */
  readonly bodyChecksum: number
  /** The checksum of the frame before. */
  readonly chain: number
  /**
   * The checksum of this header. The header contains the other checksums, so this one depends on the whole
   * frame and on all frames before it.
   */
  readonly checksum: number
}

/**
 * The value that the checksums of frames start from. It differs between stores, so a frame of one store is
 * not valid in another.
 */
export function frameSeed(storeId: string): number {
  return crc32(storeId)
}

/** Writes the header at the start of `bytes` and returns its checksum. */
export function writeFrameHeader(bytes: Buffer, header: Omit<FrameHeader, 'checksum'>, seed: number): number {
  bytes.writeUInt32LE(frameMagic, 0)
  bytes.writeUInt32LE(header.bodyBytes, 4)
  writeLong(bytes, header.commit, 8)
  writeLong(bytes, header.syncedTo, 16)
  bytes.writeUInt32LE(header.entries, 24)
  bytes.writeUInt32LE(header.bodyChecksum, 28)
  bytes.writeUInt32LE(header.chain, 32)
  const headerChecksum = checksum(bytes, 0, 36, seed)
  bytes.writeUInt32LE(headerChecksum, 36)
  return headerChecksum
}

/** Undefined unless an intact header is at `at`. */
export function readFrameHeader(bytes: Buffer, at: number, seed: number): FrameHeader | undefined {
  if (at + frameHeaderBytes > bytes.length || bytes.readUInt32LE(at) !== frameMagic) return undefined
  const headerChecksum = bytes.readUInt32LE(at + 36)
  if (checksum(bytes, at, at + 36, seed) !== headerChecksum) return undefined
  return {
    bodyBytes: bytes.readUInt32LE(at + 4),
    commit: readLong(bytes, at + 8),
    syncedTo: readLong(bytes, at + 16),
    entries: bytes.readUInt32LE(at + 24),
    bodyChecksum: bytes.readUInt32LE(at + 28),
    chain: bytes.readUInt32LE(at + 32),
    checksum: headerChecksum,
  }
}

/** The offset of the next bytes that may be the header of a frame, or -1. */
export function findFrame(bytes: Buffer, from: number): number {
  return bytes.indexOf('FKF2', from, 'latin1')
}

/** The size of an entry up to its value: the head, the key, and for a blob the checksums of its pieces. */
export function entryHeadLength(kind: number, keyBytes: number, valueBytes: number): number {
  const checksums = kind === entryKind.blob ? 4 * pieceCount(valueBytes) : 0
  return entryHeadBytes + keyBytes + checksums
}

export function pieceCount(bytes: number): number {
  return Math.ceil(bytes / blobPieceBytes)
}

/** The size of the blob whose entry has this length. */
export function blobBytesOf(entryLength: number): number {
  const rest = entryLength - entryHeadBytes - blobKeyBytes
  return rest - 4 * Math.ceil(rest / (blobPieceBytes + 4))
}

/**
 * The checksum of an entry up to `end`. For a blob, `end` is before its bytes, whose pieces have checksums of
 * their own.
 */
export function entryChecksum(kind: number, bytes: Uint8Array, at: number, end: number): number {
  return checksum(bytes, at + 5, end, kind)
}

/**
 * A key in the form that the index uses: a letter for its key space, then its bytes, each as one character.
 * For example, the record `a` has the key `ra`.
 */
export function indexKey(kind: number, key: string): string {
  switch (kind) {
    case entryKind.put:
    case entryKind.delete:
      return `r${key}`
    case entryKind.event:
    case entryKind.deleteEvents:
      return `e${key}`
    default:
      return `b${key}`
  }
}

/**
 * The UTF-8 bytes of a text, each as one character. In this form, `<` compares texts in the order of their
 * bytes.
 */
export function toBinary(text: string): string {
  return isAscii(text) ? text : Buffer.from(text).toString('latin1')
}

export function fromBinary(binary: string): string {
  return isAscii(binary) ? binary : Buffer.from(binary, 'latin1').toString()
}

export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text)
}

function writeLong(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32LE(value % 2 ** 32, at)
  bytes.writeUInt32LE(Math.floor(value / 2 ** 32), at + 4)
}

function readLong(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32
}
