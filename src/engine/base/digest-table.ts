import { Buffer } from 'node:buffer'

/** Hex digits of a digest that tell it from others: 160 bits. */
const keyDigits = 40
const keyWords = 5
/** Each grows on its own, so that none of it takes long. */
const shardCount = 64
const firstSlots = 16

/**
 * A map from digests in hex, of which the first 160 bits count, to small records of one size; in a few tens of
 * bytes each beside the record.
 */
export class DigestTable {
  static readonly keyDigits = keyDigits
  readonly #recordBytes: number
  readonly #shards: (Shard | undefined)[] = Array.from({ length: shardCount })
  #size = 0

  constructor(recordBytes = 0) {
    this.#recordBytes = recordBytes
  }

  get size(): number {
    return this.#size
  }

  has(digest: string): boolean {
    return this.get(digest) !== undefined
  }

  /** The record, to be read or written at once. */
  get(digest: string): Buffer | undefined {
    return this.#shards[shardOf(digest)]?.find(wordsOf(digest))
  }

  /** A record of zeros to be filled at once; undefined when there is one already. */
  add(digest: string): Buffer | undefined {
    const shard = (this.#shards[shardOf(digest)] ??= new Shard(this.#recordBytes))
    const record = shard.add(wordsOf(digest))
    if (record !== undefined) this.#size++
    return record
  }
}

class Shard {
  readonly #recordBytes: number
  /** Indexes of keys, plus one, by hash; 0 is free. */
  #slots = new Uint32Array(firstSlots)
  #keys = new Uint32Array((firstSlots / 2) * keyWords)
  #records: Buffer
  #size = 0

  constructor(recordBytes: number) {
    this.#recordBytes = recordBytes
    this.#records = Buffer.alloc((firstSlots / 2) * recordBytes)
  }

  find(words: Uint32Array): Buffer | undefined {
    const index = this.#slots[this.#slotOf(words)]!
    return index === 0 ? undefined : this.#record(index - 1)
  }

  add(words: Uint32Array): Buffer | undefined {
    if (this.#slots[this.#slotOf(words)] !== 0) return undefined
    if (this.#size * 2 === this.#slots.length) this.#grow()
    this.#keys.set(words, this.#size * keyWords)
    this.#slots[this.#slotOf(words)] = ++this.#size
    return this.#record(this.#size - 1)
  }

  #record(index: number): Buffer {
    return this.#records.subarray(index * this.#recordBytes, (index + 1) * this.#recordBytes)
  }

  /** Where a key stands, or would. */
  #slotOf(words: Uint32Array): number {
    const mask = this.#slots.length - 1
    for (let slot = words[1]! & mask; ; slot = (slot + 1) & mask) {
      const index = this.#slots[slot]!
      if (index === 0 || this.#isKey(index - 1, words)) return slot
    }
  }

  #isKey(index: number, words: Uint32Array): boolean {
    for (let i = 0; i < keyWords; i++) if (this.#keys[index * keyWords + i] !== words[i]) return false
    return true
  }

  #grow(): void {
    const count = this.#slots.length
    this.#slots = new Uint32Array(count * 2)
    const keys = new Uint32Array(count * keyWords)
    keys.set(this.#keys)
    this.#keys = keys
    const records = Buffer.alloc(count * this.#recordBytes)
    this.#records.copy(records)
    this.#records = records
    for (let index = 0; index < this.#size; index++) {
      const words = keys.subarray(index * keyWords, (index + 1) * keyWords)
      this.#slots[this.#slotOf(words)] = index + 1
    }
  }
}

function shardOf(digest: string): number {
  return Number.parseInt(digest.slice(0, 2), 16) % shardCount
}

const scratch = new Uint32Array(keyWords)

function wordsOf(digest: string): Uint32Array {
  for (let i = 0; i < keyWords; i++)
    scratch[i] = Number.parseInt(
      digest.slice(i * (keyDigits / keyWords), (i + 1) * (keyDigits / keyWords)),
      16,
    )
  return scratch
}
