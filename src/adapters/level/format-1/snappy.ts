/**
 * Decompresses Snappy, which LevelDB uses for its blocks. The format: https://github.com/google/snappy,
 * format_description.txt
 */
import { Buffer } from 'node:buffer'
import { itemAt, present } from '../../../engine/ports.js'

/**
 * The content of a compressed block, or undefined when the bytes are not valid Snappy of at most `maxBytes`.
 */
export function uncompress(bytes: Buffer, maxBytes: number): Buffer | undefined {
  let length = 0
  let at = 0
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++]
    if (byte === undefined || at > 5) return undefined
    length += (byte & 127) * factor
    if (byte < 128) break
  }
  if (length > maxBytes) return undefined
  const content = Buffer.alloc(length)
  let end = 0
  while (at < bytes.length) {
    const tag = itemAt(bytes, at++)
    const kind = tag & 3
    if (kind === 0) {
      const extra = (tag >>> 2) - 59
      let size = (tag >>> 2) + 1
      if (extra > 0) {
        if (at + extra > bytes.length) return undefined
        size = bytes.readUIntLE(at, extra) + 1
        at += extra
      }
      if (at + size > bytes.length || end + size > length) return undefined
      end += bytes.copy(content, end, at, at + size)
      at += size
      continue
    }
    const offsetBytes = kind === 3 ? 4 : kind
    if (at + offsetBytes > bytes.length) return undefined
    const low = bytes.readUIntLE(at, offsetBytes)
    at += offsetBytes
    const offset = kind === 1 ? ((tag >>> 5) << 8) | low : low
    const size = kind === 1 ? ((tag >>> 2) & 7) + 4 : (tag >>> 2) + 1
    if (offset === 0 || offset > end || end + size > length) return undefined
    // Copied byte by byte, because a copy may overlap its own output.
    for (const stop = end + size; end < stop; end++)
      content[end] = present(content[end - offset], 'a byte to copy')
  }
  return end === length ? content : undefined
}
