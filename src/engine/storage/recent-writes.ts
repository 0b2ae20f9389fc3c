import { DigestSet } from '../base/digest-set.js'
import { limits } from '../base/limits.js'
import { keys } from './keys.js'
import type { StoreCommit } from './store.js'

/**
 * The writes that a pin protects. `now`: all writes from now on. `the oldest pin`: also the writes noted
 * since the oldest active pin began.
 */
export type WrittenSince = 'now' | 'the oldest pin'

/** Pins that protect new writes; see the class `Pins`. */
export interface WritePins {
  pin(request: { readonly writesSince: WrittenSince }): Disposable
}

interface Period {
  readonly written: DigestSet
  /** The epoch in which the period began, on a shared store. */
  readonly epoch: number
  /** Pins that hold this period and have not ended. */
  holders: number
}

const nodePrefix = keys.node('')

/**
 * Notes the blobs and tree nodes that are written while a pin is held. For example, an import holds one,
 * because it writes contents before the records that refer to them. A collection holds one too.
 *
 * Without a pin, nothing is noted. Notes are dropped when all pins that were active at the time have ended.
 * After very many writes, `has` also finds some digests that were never written. A collection leaves these
 * objects to the next collection.
 */
export class RecentWrites {
  /** Oldest first. */
  readonly #periods: Period[] = []
  /** The newest epoch of a shared store that this engine has acknowledged. */
  epoch = 0

  /** Notes writes until the returned function is called. */
  begin(since: WrittenSince): () => void {
    const [oldest] = this.#periods
    if (since === 'the oldest pin' && oldest !== undefined) return this.#hold(oldest)
    const last = this.#periods.at(-1)
    const isFresh = last !== undefined && last.written.size === 0
    const period = isFresh
      ? last
      : { written: new DigestSet({ filterBytes: limits.recentWritesBytes }), epoch: this.epoch, holders: 0 }
    if (!isFresh) this.#periods.push(period)
    return this.#hold(period)
  }

  /** The epoch in which the oldest pin began; undefined if there is none. */
  get oldest(): number | undefined {
    return this.#periods[0]?.epoch
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
    let released = false
    return () => {
      if (released) return
      released = true
      period.holders--
      while (this.#periods[0]?.holders === 0) this.#periods.shift()
    }
  }
}
