import { Buffer } from 'node:buffer'

/** Returns the next piece, or undefined at the end. A piece has any size and is valid until the next call. */
export type NextPiece = () => Promise<Uint8Array | undefined>

/** Reads bytes that arrive in pieces, and can peek at the next bytes without consuming them. */
export class ByteReader {
  readonly #next: NextPiece
  #piece: Buffer = Buffer.alloc(0)

  constructor(next: NextPiece) {
    this.#next = next
  }

  /** Returns the next `length` bytes without consuming them. Returns fewer only at the end. */
  async peek(length: number): Promise<Buffer> {
    while (this.#piece.length < length) {
      // The source may overwrite a piece when the next one is requested.
      const kept = Buffer.from(this.#piece)
      const piece = await this.#next()
      if (piece === undefined) break
      this.#piece = Buffer.concat([kept, piece])
    }
    return this.#piece.subarray(0, length)
  }

  /**
   * Consumes and returns the available bytes, up to `most`. They are valid until the next call. Returns
   * undefined at the end.
   */
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
