import { DigestSet } from '../base/digest-set.js'
import { limits } from '../base/limits.js'
import { keys } from './keys.js'
import type { StoreCommit } from './store.js'

/** `now`: from now on; `the oldest pin`: also everything noted since the oldest pin that asked for it. */
export type WrittenSince = 'now' | 'the oldest pin'

/** Pins that protect new writes; see the class `Pins`. */
export interface WritePins {
  pin(request: { readonly writesSince: WrittenSince }): Disposable
}

interface Period {
  readonly written: DigestSet
  /** Holders that began in this period and have not ended. */
  holders: number
}

const nodePrefix = keys.node('')

/**
 * Blobs and tree nodes written during work whose references are not stored yet, such as an import or a collection.
 * Without such work nothing is noted. Notes are dropped when all work that was under way at the time has ended.
 * After very many writes, some digests count as written that were not: a collection leaves those to the next one.
 */
export class RecentWrites {
  /** The oldest first. */
  readonly #periods: Period[] = []

  /** Notes writes until the result is called. */
  begin(since: WrittenSince): () => void {
    const [oldest] = this.#periods
    if (since === 'the oldest pin' && oldest !== undefined) return this.#hold(oldest)
    const last = this.#periods.at(-1)
    const isFresh = last !== undefined && last.written.size === 0
    const period = isFresh
      ? last
      : { written: new DigestSet({ filterBytes: limits.recentWritesBytes }), holders: 0 }
    if (!isFresh) this.#periods.push(period)
    return this.#hold(period)
  }

  has(digest: string): boolean {
    return this.#periods.some(({ written }) => written.has(digest))
  }

  note({ blobs, put }: StoreCommit): void {
    const written = this.#periods.at(-1)?.written
    if (written === undefined) return
    if (blobs !== undefined) for (const { hash } of blobs) written.add(hash)
    if (put !== undefined)
      for (const [key] of put) if (key.startsWith(nodePrefix)) written.add(key.slice(nodePrefix.length))
  }

  #hold(period: Period): () => void {
    period.holders++
    let ended = false
    return () => {
      if (ended) return
      ended = true
      period.holders--
      while (this.#periods[0]?.holders === 0) this.#periods.shift()
    }
  }
}
