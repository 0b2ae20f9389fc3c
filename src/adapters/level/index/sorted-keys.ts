/** A chunk with more keys than this is split. An insertion moves at most this many keys. */
const chunkKeys = 512

/** Goes over keys in one direction. */
export interface KeyCursor {
  /** Undefined after the last one. */
  readonly key: string | undefined
  next(): void
}

/**
 * Different keys in order. A key that is added is put in its place by the next read, so adding without reading costs
 * next to nothing. A read costs as much as finding its first key, and a step for each key that it takes.
 */
export class SortedKeys {
  /** Ascending, none of them empty. */
  readonly #chunks: string[][] = []
  #added: string[] = []

  add(key: string): void {
    this.#added.push(key)
  }

  /** The keys with from ≤ key < to. The cursor is good until the next call. */
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
    const number = Math.max(0, firstWhere(chunks.length, (i) => chunks[i]![0]! > key) - 1)
    const chunk = chunks[number]
    if (chunk === undefined) {
      chunks.push([key])
      return
    }
    const at = firstAtLeast(chunk, key)
    if (chunk[at] === key) return
    chunk.splice(at, 0, key)
    if (chunk.length > chunkKeys) chunks.splice(number + 1, 0, chunk.splice(chunkKeys / 2))
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
    this.#chunk = firstWhere(chunks.length, (i) => chunks[i]!.at(-1)! >= start)
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

/** The first index of an ascending list whose key is not below `key`; its length when there is none. */
export function firstAtLeast(sorted: readonly string[], key: string): number {
  return firstWhere(sorted.length, (i) => sorted[i]! >= key)
}

/** The first of `count` indexes that fits, when all after it fit too; `count` when none does. */
function firstWhere(count: number, fits: (index: number) => boolean): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (fits(middle)) high = middle
    else low = middle + 1
  }
  return low
}
