import { Buffer } from 'node:buffer'
import { present } from './present.js'

/** Hex digits that identify a digest: 160 bits. */
const keyDigits = 40
const wordDigits = 8
/** Each shard grows on its own, so that growing one never takes long. */
const shardCount = 64
const firstSlots = 16

/**
 * A map from digests in hex to small records of one size. Only the first 160 bits of a digest count. Each
 * entry takes a few tens of bytes in addition to its record.
 */
export class DigestTable {
  static readonly keyDigits = keyDigits
  readonly #recordBytes: number
  readonly #keyWords: number
  readonly #shards: (Shard | undefined)[] = Array.from({ length: shardCount })
  #size = 0

  /** `digits` is a multiple of 8, at most 40. */
  constructor(recordBytes = 0, digits: number = keyDigits) {
    this.#recordBytes = recordBytes
    this.#keyWords = digits / wordDigits
  }

  get size(): number {
    return this.#size
  }

  has(digest: string): boolean {
    return this.get(digest) !== undefined
  }

  /** The record of a digest. Read or write it before the next call of `add`. */
  get(digest: string): Buffer | undefined {
    return this.#shards[shardOf(digest)]?.find(wordsOf(digest, this.#keyWords))
  }

  /**
   * Adds a digest and returns its record of zeros, to be filled before the next call of `add`. Undefined when
   * the digest is already there.
   */
  add(digest: string): Buffer | undefined {
    const shard = (this.#shards[shardOf(digest)] ??= new Shard(this.#recordBytes, this.#keyWords))
    const record = shard.add(wordsOf(digest, this.#keyWords))
    if (record !== undefined) this.#size++
    return record
  }

  /** The words of every digest. Read each of them before the table changes. */
  *words(): Generator<Uint32Array> {
    for (const shard of this.#shards) if (shard !== undefined) yield* shard.words()
  }
}

class Shard {
  readonly #recordBytes: number
  readonly #keyWords: number
  /** Indexes of keys, plus one, by hash; 0 is free. */
  #slots = new Uint32Array(firstSlots)
  #keys: Uint32Array
  #records: Buffer
  #size = 0

  constructor(recordBytes: number, keyWords: number) {
    this.#recordBytes = recordBytes
    this.#keyWords = keyWords
    this.#keys = new Uint32Array((firstSlots / 2) * keyWords)
    this.#records = Buffer.alloc((firstSlots / 2) * recordBytes)
  }

  find(words: Uint32Array): Buffer | undefined {
    const index = present(this.#slots[this.#slotOf(words)], 'a slot')
    return index === 0 ? undefined : this.#record(index - 1)
  }

  add(words: Uint32Array): Buffer | undefined {
    if (this.#slots[this.#slotOf(words)] !== 0) return undefined
    if (this.#size * 2 === this.#slots.length) this.#grow()
    this.#keys.set(words, this.#size * this.#keyWords)
    this.#slots[this.#slotOf(words)] = ++this.#size
    return this.#record(this.#size - 1)
  }

  *words(): Generator<Uint32Array> {
    for (let index = 0; index < this.#size; index++)
      yield this.#keys.subarray(index * this.#keyWords, (index + 1) * this.#keyWords)
  }

  #record(index: number): Buffer {
    return this.#records.subarray(index * this.#recordBytes, (index + 1) * this.#recordBytes)
  }

  /** The slot of a key, or the free slot for it. */
  #slotOf(words: Uint32Array): number {
    const mask = this.#slots.length - 1
    for (let slot = present(words[1], 'a word of a digest') & mask; ; slot = (slot + 1) & mask) {
      const index = present(this.#slots[slot], 'a slot')
      if (index === 0 || this.#isKey(index - 1, words)) return slot
    }
  }

  #isKey(index: number, words: Uint32Array): boolean {
    const first = index * this.#keyWords
    for (let i = 0; i < words.length; i++) if (this.#keys[first + i] !== words[i]) return false
    return true
  }

  #grow(): void {
    const count = this.#slots.length
    this.#slots = new Uint32Array(count * 2)
    const keys = new Uint32Array(count * this.#keyWords)
    keys.set(this.#keys)
    this.#keys = keys
    const records = Buffer.alloc(count * this.#recordBytes)
    this.#records.copy(records)
    this.#records = records
    for (let index = 0; index < this.#size; index++) {
      const words = keys.subarray(index * this.#keyWords, (index + 1) * this.#keyWords)
      this.#slots[this.#slotOf(words)] = index + 1
    }
  }
}

function shardOf(digest: string): number {
  return Number.parseInt(digest.slice(0, 2), 16) % shardCount
}

const scratches = Array.from({ length: keyDigits / wordDigits + 1 }, (_, words) => new Uint32Array(words))

/** The first words of a digest. The next call with the same count overwrites them. */
export function wordsOf(digest: string, count: number): Uint32Array {
  const words = present(scratches[count], 'the words of a digest')
  for (let i = 0; i < count; i++)
    words[i] = Number.parseInt(digest.slice(i * wordDigits, (i + 1) * wordDigits), 16)
  return words
}
