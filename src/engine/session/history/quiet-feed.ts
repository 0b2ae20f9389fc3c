import { limits } from '../../base/limits.js'
import type { LiveSession } from '../table/live.js'
import { follow } from './feed.js'

/** Reports when a session has new events and was then quiet for a while. It keeps no events. */
export class QuietFeed implements Disposable {
  /** Set when no more events will follow. `error` is set if a write failed. */
  ended: { readonly error: Error | undefined } | undefined
  readonly #debounceMs: number
  readonly #unfollow: () => void
  /** Runs while the session has new events and is not quiet yet. */
  #pause: ReturnType<typeof setTimeout> | undefined
  /** Ends the wait for a session that is never quiet. */
  #longest: ReturnType<typeof setTimeout> | undefined
  #isQuiet = false
  #wake: (() => void) | undefined

  constructor(live: LiveSession, debounceMs: number) {
    this.#debounceMs = debounceMs
    this.#unfollow = follow(live, {
      event: () => this.event(),
      end: (error) => {
        this.ended = { error }
        this.wake()
      },
    })
  }

  /** Resolves when there are new events and the session is quiet, at the end, when the signal aborts, or on a wake. */
  async quiet(signal: AbortSignal | undefined): Promise<void> {
    if (this.#isQuiet || this.ended !== undefined || signal?.aborted === true) return
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
  }

  /** Starts to wait for the next events. */
  reset(): void {
    clearTimeout(this.#pause)
    clearTimeout(this.#longest)
    this.#pause = this.#longest = undefined
    this.#isQuiet = false
  }

  wake(): void {
    this.#wake?.()
  }

  [Symbol.dispose](): void {
    this.#unfollow()
    this.reset()
  }

  /** Starts to wait for a pause, after a new event or one that came before the feed. */
  event(): void {
    if (this.#isQuiet) return
    if (this.#debounceMs === 0) return this.#settle()
    if (this.#pause !== undefined) {
      this.#pause.refresh()
      return
    }
    this.#pause = setTimeout(() => this.#settle(), this.#debounceMs)
    this.#longest = setTimeout(() => this.#settle(), limits.watchBatchMs)
  }

  #settle(): void {
    this.reset()
    this.#isQuiet = true
    this.wake()
  }
}
