import { itemAt } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import type { EventBody, Redo } from '../../records/event.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { bodyOf, countEffects, nextReadCount } from './stored-events.js'

/** An event as a walk through the history finds it. */
export interface WalkedEvent {
  readonly seq: number
  readonly body: EventBody
  /** Undefined if the effects are no longer kept. */
  readonly redo: readonly Redo[] | undefined
}

/**
 * Reads events by their numbers, one after the other, mostly backwards. It has one window of them in memory, which
 * starts with one event and grows while the events have few effects.
 */
export class EventWalk {
  readonly #core: Core
  readonly #live: LiveSession
  readonly #window = new Map<number, EventBody>()
  #count = 1

  constructor(core: Core, live: LiveSession) {
    this.#core = core
    this.#live = live
  }

  /**
   * @throws {EngineError} DATA_LOSS when the event is missing
   * @throws {EngineError} SESSION_NOT_FOUND when it is missing because the session was deleted
   */
  async at(seq: number): Promise<WalkedEvent> {
    let body = this.#window.get(seq)
    if (body === undefined) {
      await this.#load(seq)
      body = this.#window.get(seq) ?? (await bodyOf(this.#core, this.#live, seq))
    }
    return { seq, body, redo: this.#core.journal.redoOf(this.#live, seq, body) }
  }

  /** Reads the window that ends with an event, or starts with it if the walk goes forward. */
  async #load(seq: number): Promise<void> {
    const isForward = this.#window.has(seq - 1)
    this.#window.clear()
    const from = isForward ? seq : Math.max(1, seq - this.#count + 1)
    const to = isForward ? seq + this.#count - 1 : seq
    /** The effects of each event in the window, oldest first. */
    const counts: number[] = []
    let effects = 0
    for await (const page of this.#core.store.events(this.#live.id, { from, to })) {
      for (const event of page) {
        const body = event.body as unknown as EventBody
        this.#window.set(event.seq, body)
        effects += itemAt(counts, counts.push(countEffects(body[5])) - 1)
      }
      if (isForward) {
        if (effects >= limits.effectsPerRead) break
      } else effects -= this.#dropOldest(counts, effects)
    }
    this.#count = nextReadCount(this.#window.size, effects, limits.eventsPerWalk)
  }

  /** Drops events while the rest has enough effects for one read. Returns the number of their effects. */
  #dropOldest(counts: number[], effects: number): number {
    let dropped = 0
    for (const [seq] of this.#window) {
      const oldest = itemAt(counts, 0)
      if (effects - dropped - oldest < limits.effectsPerRead) break
      this.#window.delete(seq)
      counts.shift()
      dropped += oldest
    }
    return dropped
  }
}
