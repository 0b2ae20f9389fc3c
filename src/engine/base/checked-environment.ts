import type { Environment } from './environment.js'
import { limits } from './limits.js'

/**
 * The embedder's environment with clocks that can be stored and shown. A reading that is no time, such as NaN, is
 * replaced by the last one that was. Parts of milliseconds are dropped from the wall clock.
 */
export class CheckedEnvironment implements Environment {
  readonly #own: Environment
  readonly #onWrong: (name: string, reading: unknown) => void
  #wallMs = 0
  #monotonicMs: number | undefined
  #isReported = false

  /** `onWrong` is called once, with the first wrong reading. */
  constructor(own: Environment, onWrong: (name: string, reading: unknown) => void) {
    this.#own = own
    this.#onWrong = onWrong
  }

  /** From 1970 to the end of the year 9999. */
  wallClockMs(): number {
    const now = this.#own.wallClockMs()
    if (now >= 0 && now <= limits.latestTimeMs) this.#wallMs = Math.floor(now)
    else this.#report('wallClockMs', now)
    return this.#wallMs
  }

  /** Never decreases. */
  monotonicMs(): number {
    const now = this.#own.monotonicMs()
    if (!Number.isFinite(now)) this.#report('monotonicMs', now)
    else if (this.#monotonicMs === undefined || now > this.#monotonicMs) this.#monotonicMs = now
    return this.#monotonicMs ?? 0
  }

  randomFill(bytes: Uint8Array): void {
    this.#own.randomFill(bytes)
  }

  #report(name: string, reading: unknown): void {
    if (this.#isReported) return
    this.#isReported = true
    this.#onWrong(name, reading)
  }
}
