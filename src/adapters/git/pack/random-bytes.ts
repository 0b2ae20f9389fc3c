import { itemAt, onlyItem } from '../../../engine/ports.js'
import type { ByteInput } from './inflate.js'
import { gitLimits } from '../limits.js'

/** Bytes with random access, in a file or in memory. */
export interface RandomBytes {
  readonly size: number
  /** Returns the `length` bytes at `offset`, or fewer at the end. The buffer never changes. */
  at(offset: number, length: number): Buffer | Promise<Buffer>
}

/** Wraps one piece of memory, which must not change. */
export function memoryBytes(content: Uint8Array): RandomBytes {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.length)
  return { size: bytes.length, at: (offset, length) => bytes.subarray(offset, offset + length) }
}

/** Returns the bytes from `start` to the end. */
export function bytesFrom(bytes: RandomBytes, start: number): RandomBytes {
  return { size: bytes.size - start, at: (offset, length) => bytes.at(start + offset, length) }
}

/** Collects bytes in segments as they arrive, so that they are never all copied at once. */
export class CollectedBytes implements RandomBytes {
  readonly #segments: Buffer[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  append(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const place = this.#size % gitLimits.memoryPieceBytes
      if (place === 0) this.#segments.push(Buffer.allocUnsafeSlow(gitLimits.memoryPieceBytes))
      const part = chunk.subarray(at, at + gitLimits.memoryPieceBytes - place)
      itemAt(this.#segments, -1).set(part, place)
      at += part.length
      this.#size += part.length
    }
  }

  at(offset: number, length: number): Buffer {
    const end = Math.min(offset + length, this.#size)
    const parts: Buffer[] = []
    for (let at = offset; at < end;) {
      const place = at % gitLimits.memoryPieceBytes
      const part = itemAt(this.#segments, Math.floor(at / gitLimits.memoryPieceBytes)).subarray(
        place,
        place + end - at,
      )
      parts.push(part)
      at += part.length
    }
    return onlyItem(parts) ?? Buffer.concat(parts)
  }
}

/** Reads bytes sequentially, starting at an offset. */
export class SequentialBytes implements ByteInput {
  readonly #bytes: RandomBytes
  #offset: number

  constructor(bytes: RandomBytes, offset: number) {
    this.#bytes = bytes
    this.#offset = offset
  }

  peek(): Buffer | Promise<Buffer> {
    return this.#bytes.at(this.#offset, gitLimits.pieceBytes)
  }

  skip(count: number): void {
    this.#offset += count
  }
}
