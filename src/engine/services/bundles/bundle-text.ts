import { Buffer } from 'node:buffer'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { damaged } from './bundle-checks.js'

const lineEnd = 0x0a

/**
 * Joins lines, and cuts them into pieces of equal size, except for the last one. A cut can be anywhere in a
 * line.
 *
 * @throws {EngineError} LIMIT_EXCEEDED when a record is too large
 */
export async function* cutLines(lines: AsyncIterable<string>): AsyncGenerator<Buffer, void> {
  let piece = Buffer.allocUnsafe(limits.bundlePieceBytes)
  let used = 0
  for await (const line of lines) {
    const bytes = Buffer.from(`${line}\n`)
    if (bytes.length > limits.bundleLineBytes) {
      throw new EngineError(
        'LIMIT_EXCEEDED',
        `the session is too large for a bundle: one of its records has ${bytes.length} bytes; at most ${limits.bundleLineBytes} are allowed`,
        { limit: String(limits.bundleLineBytes) },
      )
    }
    for (let from = 0; from < bytes.length;) {
      const count = bytes.copy(piece, used, from)
      used += count
      from += count
      if (used < piece.length) continue
      yield piece
      piece = Buffer.allocUnsafe(limits.bundlePieceBytes)
      used = 0
    }
  }
  if (used > 0) yield piece.subarray(0, used)
}

/** The lines in the pieces, without line ends. */
export async function* joinLines(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void> {
  let begun: Uint8Array[] = []
  let begunBytes = 0
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length;) {
      const end = piece.indexOf(lineEnd, from)
      const part = piece.subarray(from, end < 0 ? undefined : end)
      begun.push(part)
      begunBytes += part.length
      if (begunBytes > limits.bundleLineBytes) throw damaged('a record is too large')
      if (end < 0) break
      yield Buffer.concat(begun, begunBytes)
      begun = []
      begunBytes = 0
      from = end + 1
    }
  }
  if (begun.length > 0) throw damaged('a text ends within a record')
}
