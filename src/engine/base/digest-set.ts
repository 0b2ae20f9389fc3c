import { DigestTable, wordsOf } from './digest-table.js'
import { limits } from './limits.js'

/** The number of hex digits that count: 96 bits. */
const digits = 24
const words = 3
/** The number of bits in the filter that each digest sets. */
const bitsPerDigest = 5

export interface DigestSetOptions {
  /** The memory of a large set: a power of two, at most 2^29. */
  readonly filterBytes: number
  /** Sets with different salts have different false positives. */
  readonly salt?: number
}

/**
 * A set of digests in bounded memory. `has` is true for every digest that was added. A small set is exact. A
 * large set is a Bloom filter with false positives: one in a hundred at 1.2 bytes for each digest, one in ten
 * million at 10 bytes.
 */
export class DigestSet {
  readonly #filterBytes: number
  readonly #salt: number
  #exact: DigestTable | undefined = new DigestTable(0, digits)
  #filter: Uint32Array | undefined
  #shift = 0
  #size = 0

  constructor({ filterBytes, salt = 0x9e3779b1 }: DigestSetOptions) {
    this.#filterBytes = filterBytes
    this.#salt = salt | 1
  }

  /** The number of added digests. In a large set, a digest that is added twice may count twice. */
  get size(): number {
    return this.#size
  }

  has(digest: string): boolean {
    if (this.#exact !== undefined) return this.#exact.has(digest)
    return this.#look(wordsOf(digest, words), false)
  }

  add(digest: string): void {
    if (this.#exact === undefined) {
      if (!this.#look(wordsOf(digest, words), true)) this.#size++
      return
    }
    if (this.#exact.add(digest) === undefined) return
    this.#size++
    if (this.#size < limits.exactDigests) return
    this.#filter = new Uint32Array(this.#filterBytes / 4)
    this.#shift = 32 - Math.log2(this.#filterBytes * 8)
    for (const known of this.#exact.words()) this.#look(known, true)
    this.#exact = undefined
  }

  /** Whether all bits of a digest are set. If `set` is true, sets them. */
  #look(digest: Uint32Array, set: boolean): boolean {
    const filter = this.#filter!
    let position = Math.imul(digest[0]! ^ digest[2]!, this.#salt)
    const step = Math.imul(digest[1]!, this.#salt) | 1
    let isIn = true
    for (let i = 0; i < bitsPerDigest; i++) {
      const bit = position >>> this.#shift
      const mask = 1 << (bit & 31)
      if ((filter[bit >>> 5]! & mask) === 0) {
        isIn = false
        if (!set) return false
        filter[bit >>> 5]! |= mask
      }
      position = (position + step) | 0
    }
    return isIn
  }
}
