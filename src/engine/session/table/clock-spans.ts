import type { Environment } from '../../base/environment.js'
import { limits } from '../../base/limits.js'
import { itemAt } from '../../base/present.js'

/** The time between two jumps of the wall clock. */
interface Span {
  /** How far the wall clock was ahead of the monotonic clock. */
  readonly aheadMs: number
  /** The monotonic time at which this was noticed. */
  readonly fromMs: number
}

/**
 * The jumps of the wall clock since the engine was opened. For example, the clock was a day slow for an hour, and a session
 * was used then. Its last use seems to be a day ago once the clock is correct again. The span of that hour shows that it was
 * less than an hour ago.
 */
export class ClockSpans {
  readonly #spans: Span[]
  readonly #noticedMs: number

  /** `noticedMs`: jumps that are not larger are not noticed. */
  constructor(
    { wallMs, monotonicMs }: { readonly wallMs: number; readonly monotonicMs: number },
    noticedMs: number = limits.clockHoldMs,
  ) {
    this.#noticedMs = noticedMs
    this.#spans = [{ aheadMs: wallMs - monotonicMs, fromMs: monotonicMs }]
  }

  /** Whether the wall clock has jumped since the engine was opened. */
  get hasJumped(): boolean {
    return this.#spans.length > 1
  }

  /** The beginning of the oldest time between two jumps that is remembered, by both clocks. */
  get start(): { readonly wallMs: number; readonly monotonicMs: number } {
    const { aheadMs, fromMs } = itemAt(this.#spans, 0)
    return { wallMs: fromMs + aheadMs, monotonicMs: fromMs }
  }

  /**
   * Notices a jump, and returns the time by the monotonic clock. Call this whenever a time of the wall clock is recorded or
   * compared.
   */
  note(environment: Environment): number {
    const fromMs = environment.monotonicMs()
    const aheadMs = environment.wallClockMs() - fromMs
    const now = this.#spans.at(-1)
    if (now !== undefined && Math.abs(aheadMs - now.aheadMs) <= this.#noticedMs) return fromMs
    this.#spans.push({ aheadMs, fromMs })
    if (this.#spans.length > limits.clockSpans) this.#spans.shift()
    return fromMs
  }

  /**
   * The latest monotonic time, up to `untilMs`, at which the wall clock may have shown this time since the engine was
   * opened, if any.
   * Another engine on the same store may notice a jump a little earlier or later.
   */
  shownAt(wallMs: number, untilMs = Infinity): number | undefined {
    let latest: number | undefined
    let endMs = untilMs
    const firstMs = this.#spans[0]?.fromMs ?? 0
    // Spans overlap, so a later one may show the time earlier.
    for (let i = this.#spans.length - 1; i >= 0; i--) {
      const { aheadMs, fromMs } = this.#spans[i] as Span
      const at = wallMs - aheadMs
      const startMs = Math.max(firstMs, fromMs - this.#noticedMs)
      if (at >= startMs && at <= endMs && (latest === undefined || at > latest)) latest = at
      endMs = fromMs + this.#noticedMs
    }
    return latest
  }
}
