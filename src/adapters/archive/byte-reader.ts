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
    if (this.#piece.length < length) this.#piece = await this.#gather(length)
    return this.#piece.subarray(0, length)
  }

  /** The next `length` bytes, valid until the next call; fewer only at the end. */
  take(length: number): Buffer | Promise<Buffer> {
    if (this.#piece.length >= length) return this.#cut(length)
    return this.#gather(length).then((gathered) => {
      this.#piece = gathered
      return this.#cut(length)
    })
  }

  /** What is there at once, up to `most` bytes, valid until the next call; undefined at the end. */
  async some(most: number): Promise<Buffer | undefined> {
    while (this.#piece.length === 0) {
      const piece = await this.#next()
      if (piece === undefined) return undefined
      this.#piece = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    }
    return this.#cut(most)
  }

  #cut(most: number): Buffer {
    const taken = this.#piece.subarray(0, most)
    this.#piece = this.#piece.subarray(taken.length)
    return taken
  }

  /** The bytes at hand and the next pieces, until they are `length` bytes or more. */
  async #gather(length: number): Promise<Buffer> {
    // A piece may be overwritten by its source when the next one is asked for.
    const parts = [Buffer.from(this.#piece)]
    let gathered = this.#piece.length
    while (gathered < length) {
      const piece = await this.#next()
      if (piece === undefined) break
      parts.push(Buffer.from(piece))
      gathered += piece.byteLength
    }
    return Buffer.concat(parts, gathered)
  }
}
