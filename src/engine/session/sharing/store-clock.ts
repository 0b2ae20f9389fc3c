import type { Environment } from '../../base/environment.js'
import type { SharedStore } from '../../storage/store.js'

/**
 * The clocks of an engine that shares its store. The wall clock is that of the store, so all engines agree when a lock, a
 * cache entry or a session expires, even if the clocks of their machines differ. The engine asks the store every few
 * seconds. In between, the monotonic clock continues, because the wall clock of the machine may jump at any time.
 */
export class StoreClock implements Environment {
  readonly #own: Environment
  readonly #store: SharedStore
  /** How far the clock of the store is ahead of the monotonic clock, in milliseconds. */
  #aheadMs: number

  constructor(own: Environment, store: SharedStore) {
    this.#own = own
    this.#store = store
    this.#aheadMs = own.wallClockMs() - own.monotonicMs()
  }

  wallClockMs(): number {
    return Math.floor(this.#own.monotonicMs() + this.#aheadMs)
  }

  monotonicMs(): number {
    return this.#own.monotonicMs()
  }

  randomFill(bytes: Uint8Array): void {
    this.#own.randomFill(bytes)
  }

  /** Asks the store. Clocks that differ by less than the time of the answer count as equal. */
  async adjust(): Promise<void> {
    const before = this.#own.monotonicMs()
    const now = await this.#store.now()
    const after = this.#own.monotonicMs()
    // The store read its clock between the two other times.
    this.#aheadMs = Math.min(Math.max(this.#aheadMs, now - after), now - before)
  }
}
