import { crc32 } from 'node:zlib'
import { levelLimits } from '../limits.js'

const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})

/**
 * The CRC-32 of the bytes from `from` to before `to`, continuing from `before`. Short ranges are computed here, because
 * a call of zlib takes longer.
 */
export function checksum(bytes: Uint8Array, from: number, to: number, before = 0): number {
  if (to - from > levelLimits.checksumBytes) return crc32(bytes.subarray(from, to), before)
  let value = ~before
  for (let at = from; at < to; at++) {
    const byte = (value ^ (bytes[at] ?? 0)) & 0xff
    value = (table[byte] ?? 0) ^ (value >>> 8)
  }
  return ~value >>> 0
}
