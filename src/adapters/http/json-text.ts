import { Buffer } from 'node:buffer'

/** Characters from which on base64 is kept apart. */
const apart = 1024
/** What has to be escaped, or may have to be. */
const special = /[^ !#-[\]-~]/
/** Longer strings are looked through faster by what escapes them. */
const shortString = 256

/** JSON that is put together from pieces. Long base64 is copied once, at the end. */
export class JsonText {
  #text = ''
  readonly #pieces: string[] = []

  add(json: string): void {
    this.#text += json
  }

  addString(value: string): void {
    this.#text += value.length > shortString || special.test(value) ? JSON.stringify(value) : `"${value}"`
  }

  addBase64(digits: string): void {
    if (digits.length < apart) this.#text += `"${digits}"`
    else {
      this.#pieces.push(`${this.#text}"`, digits)
      this.#text = '"'
    }
  }

  /** A string, if there is no long base64 in it. */
  end(): string | Uint8Array {
    if (this.#pieces.length === 0) return this.#text
    this.#pieces.push(this.#text)
    const lengths = this.#pieces.map((piece, index) =>
      index % 2 === 0 ? Buffer.byteLength(piece) : piece.length,
    )
    const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length, 0))
    let filled = 0
    for (const [index, piece] of this.#pieces.entries())
      filled += bytes.write(piece, filled, index % 2 === 0 ? 'utf8' : 'latin1')
    return bytes
  }
}
