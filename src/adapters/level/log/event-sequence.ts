import { EngineError } from '../../../engine/ports.js'
import type { NewStoredEvent } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'

/**
 * The next sequence number of each session, queued commits included. This store is the only writer of its
 * directory, so one lookup in the index per session is enough.
 */
export class EventSequence {
  readonly #hasEvent: (sessionId: string, seq: number) => boolean
  readonly #next = new Map<string, number>()

  /** `hasEvent` finds out whether an event was written. */
  constructor(hasEvent: (sessionId: string, seq: number) => boolean) {
    this.#hasEvent = hasEvent
  }

  /**
   * Claims the numbers of all these events. Returns false, and claims none, if one of the numbers is taken
   * already.
   *
   * @throws EngineError `INTERNAL` when a number would leave a gap in its session.
   */
  claim(events: readonly NewStoredEvent[]): boolean {
    for (const [i, { sessionId, seq }] of events.entries()) {
      let next: number
      try {
        next = this.#next.get(sessionId) ?? this.#look(sessionId, seq)
      } catch (error) {
        // The store rebuilds a damaged index and then adds the same commit again.
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
   * Requires that all events to replace are stored or queued. If one is not, the numbers that `claim` took
   * are free again.
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

  /**
   * Forgets the sessions if there are too many. Call this while no commit is queued or being written, because
   * only then does the index have every number.
   */
  trim(): void {
    if (this.#next.size > levelLimits.knownSessions) this.#next.clear()
  }

  /**
   * The next number of the session, found with at most two lookups. Sequences have no gaps, so `seq` is next
   * if it is free and the number before it is taken. Otherwise the result only says on which side of `seq`
   * the next number is, and must not be remembered.
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
