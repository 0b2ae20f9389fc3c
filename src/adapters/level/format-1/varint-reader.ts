import type { Buffer } from 'node:buffer'

/** Reads LevelDB's numbers, which are stored as 7-bit groups. Past the end of the bytes, it reads zeros. */
export class VarintReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get more(): boolean {
    return this.#at < this.#bytes.length
  }

  number(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const byte = this.#bytes[this.#at++] ?? 0
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
      factor *= 0x80
    }
  }

  skip(length: number): void {
    this.#at += length
  }

  take(length: number): Buffer {
    const bytes = this.#bytes.subarray(this.#at, this.#at + length)
    this.#at += length
    return bytes
  }

  skipString(): void {
    this.skip(this.number())
  }
}
