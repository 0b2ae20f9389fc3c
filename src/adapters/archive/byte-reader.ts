import { Buffer } from 'node:buffer'

/** Gives pieces of any size, each valid until the next is asked for; undefined at the end. */
export type NextPiece = () => Promise<Uint8Array | undefined>

/** Bytes that come in pieces, the first of which can be looked at. */
export class ByteReader {
  readonly #next: NextPiece
  #piece: Buffer = Buffer.alloc(0)

  constructor(next: NextPiece) {
    this.#next = next
  }

  /** Up to `length` bytes that stay in place; fewer only at the end. */
  async peek(length: number): Promise<Buffer> {
    while (this.#piece.length < length) {
      // A piece may be overwritten by its source when the next one is asked for.
      const kept = Buffer.from(this.#piece)
      const piece = await this.#next()
      if (piece === undefined) break
      this.#piece = Buffer.concat([kept, piece])
    }
    return this.#piece.subarray(0, length)
  }

  /** What is there at once, up to `most` bytes, valid until the next call; undefined at the end. */
  async some(most: number): Promise<Buffer | undefined> {
    while (this.#piece.length === 0) {
      const piece = await this.#next()
      if (piece === undefined) return undefined
      this.#piece = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    }
    const taken = this.#piece.subarray(0, most)
    this.#piece = this.#piece.subarray(taken.length)
    return taken
  }
}
