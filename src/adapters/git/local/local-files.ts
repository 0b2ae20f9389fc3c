import type { promises as fs } from 'node:fs'
import { gitLimits } from '../limits.js'

/** Reads `length` bytes, or fewer at the end of the file. */
export async function readFully(handle: fs.FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  let end = 0
  while (end < length) {
    const { bytesRead } = await handle.read(bytes, end, length - end, offset + end)
    if (bytesRead === 0) break
    end += bytesRead
  }
  return bytes.subarray(0, end)
}

/** Joins small parts into groups, for a few large writes instead of many small ones. */
export function* grouped(parts: Iterable<Uint8Array>): Generator<Uint8Array, void, undefined> {
  let group: Uint8Array[] = []
  let bytes = 0
  for (const part of parts) {
    group.push(part)
    bytes += part.length
    if (bytes < gitLimits.fileGroupBytes) continue
    yield Buffer.concat(group)
    group = []
    bytes = 0
  }
  yield Buffer.concat(group)
}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}
