import { limits } from '../../base/limits.js'
import type { EventBody, Redo } from '../../records/event.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { bodyOf } from './stored-events.js'

/** An event as a walk through the history finds it. */
export interface WalkedEvent {
  readonly seq: number
  readonly body: EventBody
  /** Undefined if the effects are no longer kept. */
  readonly redo: readonly Redo[] | undefined
}

/** Reads events by their numbers, mostly backwards, with one window of them in memory. */
export class EventWalk {
  readonly #core: Core
  readonly #live: LiveSession
  #window = new Map<number, EventBody>()

  constructor(core: Core, live: LiveSession) {
    this.#core = core
    this.#live = live
  }

  /**
   * @throws {EngineError} DATA_LOSS when the event is missing.
   */
  async at(seq: number): Promise<WalkedEvent> {
    let body = this.#window.get(seq)
    if (body === undefined) {
      await this.#load(seq)
      body = this.#window.get(seq) ?? (await bodyOf(this.#core, this.#live.id, seq))
    }
    return { seq, body, redo: this.#core.journal.redoOf(this.#live, seq, body) }
  }

  async #load(seq: number): Promise<void> {
    const window = new Map<number, EventBody>()
    const from = Math.max(1, seq - limits.eventsPerWalk + 1)
    for await (const page of this.#core.store.events(this.#live.id, { from, to: seq }))
      for (const event of page) window.set(event.seq, event.body as unknown as EventBody)
    this.#window = window
  }
}
