import { abortable } from './abort.js'
import type { Environment } from './environment.js'
import { copyBytes, notInPieces } from './input.js'
import { limits } from './limits.js'

export interface TransferLimits {
  /** The least number of bytes received for each second of waiting. 0: no minimum. */
  readonly minBytesPerSecond: number
  /** The rate is measured over this many milliseconds of waiting. */
  readonly windowMs: number
}

/**
 * The bytes received from a third party for one job, and how long the job waited for them. Time spent
 * processing them does not count.
 */
export class Transfer {
  readonly #environment: Environment
  readonly #rate: TransferLimits
  readonly #timer: ReturnType<typeof setInterval>
  #waits = 0
  #waitingSince = 0
  #waitedMs = 0
  #bytes = 0

  /** `onSlow` is called with the number of bytes of a window that had too few. */
  constructor(environment: Environment, rate: TransferLimits, onSlow: (bytes: number) => void) {
    this.#environment = environment
    this.#rate = rate
    this.#timer = setInterval(() => {
      const bytes = this.#tooFew()
      if (bytes !== undefined) onSlow(bytes)
    }, rate.windowMs / limits.looksPerWindow)
    this.#timer.unref()
  }

  /** Call this when the job has ended. */
  close(): void {
    clearInterval(this.#timer)
  }

  /** The outcome of a third party's work. The time that the work takes counts as waiting. */
  async waiting<T>(work: PromiseLike<T>): Promise<T> {
    if (this.#waits++ === 0) this.#waitingSince = this.#environment.monotonicMs()
    try {
      return await work
    } finally {
      if (--this.#waits === 0) this.#waitedMs += this.#environment.monotonicMs() - this.#waitingSince
    }
  }

  /** Call this for useful bytes. Progress messages and the like do not count. */
  received(bytes: number): void {
    this.#bytes += bytes
  }

  /**
   * Like {@link abortable}, but yields copies of the pieces. It counts the time spent waiting for them, and
   * their bytes.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a piece is not bytes.
   */
  pieces(
    pieces: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncIterableIterator<Uint8Array, undefined, unknown> {
    const incoming = abortable(pieces, signal)
    const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
      const item = await this.waiting(incoming.next())
      if (item.done === true) return item
      try {
        const value = copyBytes('content', item.value, notInPieces(item.value))
        this.received(value.byteLength)
        return { done: false, value }
      } catch (error) {
        await incoming.return()
        throw error
      }
    }
    const iterator: AsyncIterableIterator<Uint8Array, undefined, unknown> = {
      [Symbol.asyncIterator]: () => iterator,
      next,
      return: () => incoming.return(),
    }
    return iterator
  }

  /** The bytes of the current window, if it is over and had too few. Undefined otherwise. */
  #tooFew(): number | undefined {
    const now = this.#environment.monotonicMs()
    if (this.#waits > 0) {
      this.#waitedMs += now - this.#waitingSince
      this.#waitingSince = now
    }
    if (this.#waitedMs < this.#rate.windowMs) return undefined
    const [bytes, wanted] = [this.#bytes, (this.#rate.minBytesPerSecond * this.#waitedMs) / 1000]
    this.#bytes = 0
    this.#waitedMs = 0
    return bytes < wanted ? bytes : undefined
  }
}
