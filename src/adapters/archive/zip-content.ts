import { Buffer } from 'node:buffer'
import yauzl from 'yauzl'
import { itemAt } from '../../engine/ports.js'
import type { ContentIn } from '../../engine/ports.js'
import type { ByteReader } from './byte-reader.js'
import { limitExceeded } from './errors.js'
import { archiveLimits } from './limits.js'

/** A whole zip in memory. It consists of blocks, so that pieces need not be joined into one buffer. */
export class ZipContent extends yauzl.RandomAccessReader {
  readonly length: number
  readonly #blocks: readonly Buffer[]

  constructor(blocks: readonly Buffer[], length: number) {
    super()
    this.#blocks = blocks
    this.length = length
  }

  /** Yields the bytes of a range part by part, without copying them. */
  *range(start: number, end: number): Generator<Buffer> {
    for (let at = start; at < end;) {
      const offset = at % archiveLimits.blockBytes
      const block = itemAt(this.#blocks, (at - offset) / archiveLimits.blockBytes)
      const part = block.subarray(offset, Math.min(block.length, offset + end - at))
      yield part
      at += part.length
    }
  }

  /** Copies the bytes of a range. */
  copy(start: number, end: number): Buffer {
    const target = Buffer.allocUnsafeSlow(end - start)
    let filled = 0
    for (const part of this.range(start, end)) filled += part.copy(target, filled)
    return target
  }

  override read(
    target: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null, bytesRead?: number) => void,
  ): void {
    const end = Math.min(position + length, this.length)
    let bytesRead = 0
    for (const part of this.range(position, end)) bytesRead += part.copy(target, offset + bytesRead)
    callback(null, bytesRead)
  }
}

/** Reads a zip into memory. Throws LIMIT_EXCEEDED if it is larger than `archiveLimits.zipBytes`. */
export async function collectZip(content: ContentIn, reader: ByteReader): Promise<ZipContent> {
  const isWhole = content instanceof Uint8Array
  const blocks: Buffer[] = []
  let length = 0
  for (;;) {
    const offset = length % archiveLimits.blockBytes
    const piece = await reader.some(archiveLimits.blockBytes - offset)
    if (piece === undefined) return new ZipContent(isWhole ? cut(content) : blocks, length)
    length += piece.length
    if (length > archiveLimits.zipBytes) throw limitExceeded('the zip is too large', archiveLimits.zipBytes)
    if (isWhole) continue
    if (offset === 0) blocks.push(Buffer.allocUnsafeSlow(archiveLimits.blockBytes))
    piece.copy(itemAt(blocks, -1), offset)
  }
}

function cut(bytes: Uint8Array): Buffer[] {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const blocks: Buffer[] = []
  for (let at = 0; at < whole.length; at += archiveLimits.blockBytes)
    blocks.push(whole.subarray(at, at + archiveLimits.blockBytes))
  return blocks
}
