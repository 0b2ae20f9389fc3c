import { EngineError, keys } from '../../engine/ports.js'
import type { NewStoredEvent } from '../../engine/ports.js'
import type { Database } from './database.js'
import { readError } from './errors.js'

/** Sessions remembered; above it they are forgotten at the next moment without queued commits. */
const maxSessions = 65_536

/**
 * The next sequence number of each session, queued commits included. This store is the only writer of its
 * directory, so one look at LevelDB per session is enough.
 */
export class EventSequence {
  readonly #db: Pick<Database, 'getSync'>
  readonly #next = new Map<string, number>()

  constructor(db: Pick<Database, 'getSync'>) {
    this.#db = db
  }

  /**
   * Takes the numbers of these events, all or none; false when one of them was passed already.
   *
   * @throws EngineError `INTERNAL` when a number is ahead of its session: sequences have no gaps.
   */
  claim(events: readonly NewStoredEvent[]): boolean {
    for (let i = 0; i < events.length; i++) {
      const { sessionId, seq } = events[i]!
      const next = this.#next.get(sessionId) ?? this.#look(sessionId, seq)
      if (seq === next) {
        this.#next.set(sessionId, seq + 1)
        continue
      }
      this.#giveBack(events, i)
      if (seq < next) return false
      throw new EngineError('INTERNAL', 'the sequence number of an event leaves a gap')
    }
    return true
  }

  /** To be called when no commit is queued or being written: LevelDB then knows everything. */
  trim(): void {
    if (this.#next.size > maxSessions) this.#next.clear()
  }

  /**
   * A sequence has no gaps: when `seq` is free and its predecessor is there, `seq` is next. The answer is
   * otherwise only on the right side of `seq`, and is not kept.
   */
  #look(sessionId: string, seq: number): number {
    if (seq < 1) return 1
    try {
      if (this.#db.getSync(keys.event(sessionId, seq)) !== undefined) return seq + 1
      if (seq > 1 && this.#db.getSync(keys.event(sessionId, seq - 1)) === undefined) return seq - 1
      return seq
    } catch (error) {
      throw error instanceof EngineError ? error : readError(error)
    }
  }

  #giveBack(events: readonly NewStoredEvent[], count: number): void {
    for (let i = count - 1; i >= 0; i--) this.#next.set(events[i]!.sessionId, events[i]!.seq)
  }
}
