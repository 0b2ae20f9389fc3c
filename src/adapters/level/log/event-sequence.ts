import { EngineError } from '../../../engine/ports.js'
import type { NewStoredEvent } from '../../../engine/ports.js'

/** Sessions remembered; above it they are forgotten at the next moment without queued commits. */
const maxSessions = 65_536

/**
 * The next sequence number of each session, queued commits included. This store is the only writer of its
 * directory, so one read of the index per session is enough.
 */
export class EventSequence {
  readonly #hasEvent: (sessionId: string, seq: number) => boolean
  readonly #next = new Map<string, number>()

  /** `hasEvent` looks an event up among the written ones. */
  constructor(hasEvent: (sessionId: string, seq: number) => boolean) {
    this.#hasEvent = hasEvent
  }

  /**
   * Takes the numbers of these events, all or none; false when one of them was passed already.
   *
   * @throws EngineError `INTERNAL` when a number is ahead of its session: sequences have no gaps.
   */
  claim(events: readonly NewStoredEvent[]): boolean {
    for (const [i, { sessionId, seq }] of events.entries()) {
      let next: number
      try {
        next = this.#next.get(sessionId) ?? this.#look(sessionId, seq)
      } catch (error) {
        // A damaged index is made again, and then the same commit comes again.
        this.#giveBack(events, i)
        throw error
      }
      if (seq === next) {
        this.#next.set(sessionId, seq + 1)
        continue
      }
      this.#giveBack(events, i)
      if (seq < next) return false
      throw new EngineError(
        'INTERNAL',
        `session ${sessionId}: the new event has the number ${seq} instead of ${next}. Please report this defect`,
      )
    }
    return true
  }

  /**
   * Gives the numbers back that `claim` took, unless all of the events to be replaced are stored or queued.
   *
   * @throws EngineError `INTERNAL` when one of them is not.
   */
  expectStored(replaced: readonly NewStoredEvent[], claimed: readonly NewStoredEvent[]): void {
    try {
      for (const { sessionId, seq } of replaced) {
        const next = this.#next.get(sessionId)
        if (seq >= 1 && (next === undefined ? this.#hasEvent(sessionId, seq) : seq < next)) continue
        throw new EngineError(
          'INTERNAL',
          `session ${sessionId}: the event ${seq} cannot be replaced, because it is not stored. Please report this defect`,
        )
      }
    } catch (error) {
      this.#giveBack(claimed, claimed.length)
      throw error
    }
  }

  /** Call this when no commit is queued or being written: the index then knows everything. */
  trim(): void {
    if (this.#next.size > maxSessions) this.#next.clear()
  }

  /**
   * A sequence has no gaps: when `seq` is free and its predecessor is there, `seq` is next. The answer is
   * otherwise only on the right side of `seq`, and is not kept.
   */
  #look(sessionId: string, seq: number): number {
    if (seq < 1) return 1
    if (this.#hasEvent(sessionId, seq)) return seq + 1
    if (seq > 1 && !this.#hasEvent(sessionId, seq - 1)) return seq - 1
    return seq
  }

  #giveBack(events: readonly NewStoredEvent[], count: number): void {
    for (const { sessionId, seq } of events.slice(0, count).reverse()) this.#next.set(sessionId, seq)
  }
}
