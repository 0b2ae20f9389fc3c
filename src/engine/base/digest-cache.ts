import { wordsOf } from './digest-table.js'
import { present } from './present.js'

const keyWords = 5
/** The number of places in a group. A digest may be in any of them. */
const places = 4

const firstCapacity = 1024

/**
 * A cache of the 160-bit digests that were added last. Its memory grows with their number, up to a limit. It
 * may forget a digest, but it never reports one that was not added.
 */
export class DigestCache {
  readonly #maxCapacity: number
  #keys: Uint32Array
  #groups: number
  #added = 0

  /** `capacity` is the largest number of digests, a power of two. Each digest takes 20 bytes. */
  constructor(capacity: number) {
    this.#maxCapacity = capacity
    const first = Math.min(capacity, firstCapacity)
    this.#keys = new Uint32Array(first * keyWords)
    this.#groups = first / places
  }

  has(digest: string): boolean {
    return this.#find(wordsOf(digest, keyWords)) !== undefined
  }

  /** Adds a digest. Returns whether it was new. */
  add(digest: string): boolean {
    const words = wordsOf(digest, keyWords)
    if (this.#find(words) !== undefined) return false
    if (this.#added * 2 >= this.#groups * places && this.#groups * places < this.#maxCapacity) this.#grow()
    this.#insert(words)
    return true
  }

  #insert(words: Uint32Array): void {
    const first = this.#groupOf(words)
    let place = this.#added++ % places
    for (let i = 0; i < places; i++) if (this.#isFree(first + i)) place = i
    this.#keys.set(words, (first + place) * keyWords)
  }

  #grow(): void {
    const before = this.#keys
    this.#keys = new Uint32Array(before.length * 2)
    this.#groups *= 2
    this.#added = 0
    for (let at = 0; at < before.length; at += keyWords) {
      const words = before.subarray(at, at + keyWords)
      if (words.some((word) => word !== 0)) this.#insert(words)
    }
  }

  #find(words: Uint32Array): number | undefined {
    const first = this.#groupOf(words)
    for (let place = first; place < first + places; place++) if (this.#isAt(place, words)) return place
    return undefined
  }

  #groupOf(words: Uint32Array): number {
    return (present(words[1], 'a word of a digest') & (this.#groups - 1)) * places
  }

  #isAt(place: number, words: Uint32Array): boolean {
    for (let i = 0; i < keyWords; i++) if (this.#keys[place * keyWords + i] !== words[i]) return false
    return true
  }

  /** A free place is all zeros, which no digest is. */
  #isFree(place: number): boolean {
    for (let i = 0; i < keyWords; i++) if (this.#keys[place * keyWords + i] !== 0) return false
    return true
  }
}
