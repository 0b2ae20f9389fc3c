import { wordsOf } from './digest-table.js'

const keyWords = 5
/** A digest may be in any place of its group. */
const places = 4

/** The digests of 160 bits that were added last, in fixed memory. It may have forgotten one; it never makes one up. */
export class DigestCache {
  readonly #keys: Uint32Array
  readonly #groups: number
  #next = 0

  /** `capacity` is a power of two. */
  constructor(capacity: number) {
    this.#keys = new Uint32Array(capacity * keyWords)
    this.#groups = capacity / places
  }

  has(digest: string): boolean {
    return this.#find(wordsOf(digest, keyWords)) !== undefined
  }

  /** Whether it was not known. */
  add(digest: string): boolean {
    const words = wordsOf(digest, keyWords)
    if (this.#find(words) !== undefined) return false
    const first = this.#groupOf(words)
    let place = this.#next++ % places
    for (let i = 0; i < places; i++) if (this.#isFree(first + i)) place = i
    this.#keys.set(words, (first + place) * keyWords)
    return true
  }

  #find(words: Uint32Array): number | undefined {
    const first = this.#groupOf(words)
    for (let place = first; place < first + places; place++) if (this.#isAt(place, words)) return place
    return undefined
  }

  #groupOf(words: Uint32Array): number {
    return (words[1]! & (this.#groups - 1)) * places
  }

  #isAt(place: number, words: Uint32Array): boolean {
    for (let i = 0; i < keyWords; i++) if (this.#keys[place * keyWords + i] !== words[i]) return false
    return true
  }

  /** No digest is all zeros. */
  #isFree(place: number): boolean {
    for (let i = 0; i < keyWords; i++) if (this.#keys[place * keyWords + i] !== 0) return false
    return true
  }
}
