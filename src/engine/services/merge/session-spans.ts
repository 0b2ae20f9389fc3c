import { firstWhere } from '../../base/ascending.js'

/**
 * States of one session in spans without a restore between their events. A span starts with the restore before it, or
 * with the first state, so that two spans with a common state have the same start.
 */
export class SessionSpans {
  /** The last state of each span by its first one. */
  readonly #ends = new Map<number, number>()
  /** The first states in ascending order. Undefined after a change. */
  #starts: readonly number[] | undefined

  has(seq: number): boolean {
    this.#starts ??= [...this.#ends.keys()].sort((a, b) => a - b)
    const start = this.#starts[firstWhere(this.#starts, (one) => one > seq) - 1]
    return start !== undefined && seq <= (this.#ends.get(start) ?? start)
  }

  /** Adds a span, or its states that are missing. Returns whether there was none with this first state. */
  add(from: number, to: number): boolean {
    const end = this.#ends.get(from)
    this.#ends.set(from, Math.max(end ?? to, to))
    if (end !== undefined) return false
    this.#starts = undefined
    return true
  }

  addAll(other: SessionSpans): void {
    for (const [from, to] of other.#ends) this.add(from, to)
  }

  /** The last common state of each span that both have, in the order in which the spans were added. */
  common(other: SessionSpans): readonly number[] {
    const common: number[] = []
    for (const [from, to] of this.#ends) {
      const end = other.#ends.get(from)
      if (end !== undefined) common.push(Math.min(to, end))
    }
    return common
  }
}
