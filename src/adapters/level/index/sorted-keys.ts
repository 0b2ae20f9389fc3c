import { firstAtLeast, firstWhere, itemAt, present } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'

/** Iterates over keys in one direction. */
export interface KeyCursor {
  /** Undefined after the last one. */
  readonly key: string | undefined
  next(): void
}

/**
 * A set of keys in order. A new key is inserted at its position only by the next read, so adding without
 * reading costs next to nothing. The cost of a read is finding its first key, and then one step for each key.
 */
export class SortedKeys {
  /** The chunks, in ascending order. None of them is empty. */
  readonly #chunks: string[][] = []
  #added: string[] = []

  add(key: string): void {
    this.#added.push(key)
  }

  /**
   * The keys with from ≤ key < to, in ascending order, or with `reverse` in descending order. The cursor is
   * valid until the next call.
   */
  range(from: string, to: string, reverse: boolean): KeyCursor {
    const added = this.#added
    if (added.length > 0) {
      this.#added = []
      for (const key of added) this.#insert(key)
    }
    return new ChunkCursor(this.#chunks, { from, to, reverse })
  }

  #insert(key: string): void {
    const chunks = this.#chunks
    // The last chunk that starts at or below the key.
    const number = Math.max(
      0,
      firstWhere(chunks, (chunk) => present(chunk[0], 'the first key of a chunk') > key) - 1,
    )
    const chunk = chunks[number]
    if (chunk === undefined) {
      chunks.push([key])
      return
    }
    const at = firstAtLeast(chunk, key)
    if (chunk[at] === key) return
    chunk.splice(at, 0, key)
    if (chunk.length > levelLimits.keysPerChunk)
      chunks.splice(number + 1, 0, chunk.splice(levelLimits.keysPerChunk / 2))
  }
}

class ChunkCursor implements KeyCursor {
  key: string | undefined
  readonly #chunks: readonly (readonly string[])[]
  readonly #end: string
  readonly #reverse: boolean
  #chunk: number
  #at: number

  constructor(
    chunks: readonly (readonly string[])[],
    { from, to, reverse }: { readonly from: string; readonly to: string; readonly reverse: boolean },
  ) {
    this.#chunks = chunks
    this.#reverse = reverse
    this.#end = reverse ? from : to
    const start = reverse ? to : from
    this.#chunk = firstWhere(chunks, (chunk) => itemAt(chunk, -1) >= start)
    const chunk = chunks[this.#chunk]
    this.#at = chunk === undefined ? 0 : firstAtLeast(chunk, start)
    if (reverse) this.#at--
    this.#look()
  }

  next(): void {
    this.#at += this.#reverse ? -1 : 1
    this.#look()
  }

  #look(): void {
    let chunk = this.#chunks[this.#chunk]
    if (this.#at === chunk?.length) {
      chunk = this.#chunks[++this.#chunk]
      this.#at = 0
    } else if (this.#at < 0) {
      chunk = this.#chunks[--this.#chunk]
      this.#at = (chunk?.length ?? 0) - 1
    }
    const key = chunk?.[this.#at]
    const isInside = key !== undefined && (this.#reverse ? key >= this.#end : key < this.#end)
    this.key = isInside ? key : undefined
  }
}
