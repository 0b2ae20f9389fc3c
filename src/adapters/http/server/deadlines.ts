import { handlerLimits } from '../limits.js'

/**
 * Rejects waits that take too long. One timer serves all of them, so a wait may end late, by up to a quarter
 * of its time but at most one second.
 */
export class Deadlines {
  readonly #ms: number
  readonly #error: () => Error
  readonly #waits = new Set<Wait>()
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number, error: () => Error) {
    this.#ms = ms
    this.#error = error
  }

  /**
   * Settles like `work`, or rejects if `work` takes too long. `settled` is called when `work` settles, even
   * if that is late.
   */
  wait<T>(work: Promise<T>, settled: () => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const wait: Wait = { until: performance.now() + this.#ms, reject }
      this.#waits.add(wait)
      this.#start()
      const over = (): void => {
        this.#waits.delete(wait)
        settled()
      }
      work.then(
        (value) => {
          over()
          resolve(value)
        },
        (error: Error) => {
          over()
          reject(error)
        },
      )
    })
  }

  /** Starts the timer, which runs until no waits are left. */
  #start(): void {
    if (this.#timer !== undefined) return
    this.#timer = setInterval(
      () => this.#look(),
      Math.min(handlerLimits.deadlineLookMs, Math.ceil(this.#ms / 4)),
    )
    this.#timer.unref()
  }

  #look(): void {
    const now = performance.now()
    for (const wait of this.#waits) {
      // The set is in order of the deadlines.
      if (wait.until > now) return
      this.#waits.delete(wait)
      wait.reject(this.#error())
    }
    if (this.#waits.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

interface Wait {
  readonly until: number
  readonly reject: (error: Error) => void
}
