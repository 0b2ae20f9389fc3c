/** CRC-32C, the checksum of LevelDB's blocks and log records. Node has only CRC-32. */
import type { Buffer } from 'node:buffer'
import { itemAt } from '../../../engine/ports.js'

const polynomial = 0x82f63b78
const tables = makeTables()

/** The checksum of a range of bytes, in the masked form in which LevelDB stores it. */
export function maskedCrc32c(bytes: Buffer, start: number, end: number): number {
  const crc = crc32c(bytes, start, end)
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0
}

/** Processes four bytes at a time. Table `n` contains the effect of a byte that `n` bytes follow. */
function crc32c(bytes: Buffer, start: number, end: number): number {
  const [t0, t1, t2, t3] = tables
  let crc = -1
  let at = start
  for (; at + 4 <= end; at += 4) {
    const word = crc ^ (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24))
    crc = t3[word & 255]! ^ t2[(word >>> 8) & 255]! ^ t1[(word >>> 16) & 255]! ^ t0[word >>> 24]!
  }
  for (; at < end; at++) crc = t0[(crc ^ bytes[at]!) & 255]! ^ (crc >>> 8)
  return ~crc
}

function makeTables(): readonly [Int32Array, Int32Array, Int32Array, Int32Array] {
  const first = new Int32Array(256)
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? polynomial : 0)
    first[byte] = crc
  }
  const after = (table: Int32Array): Int32Array => table.map((crc) => itemAt(first, crc & 255) ^ (crc >>> 8))
  const second = after(first)
  const third = after(second)
  return [first, second, third, after(third)]
}
