import { eventMissing } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import type { EventBody } from '../../records/event.js'
import { sessionNotFound, type Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { shownTime } from './event-times.js'

/** The number of the first event at or after a time; one past the last event when there is none. */
export async function firstSince(core: Core, live: LiveSession, last: number, time: number): Promise<number> {
  let low = 1
  let high = last + 1
  while (low < high) {
    const middle = (low + high) >>> 1
    const [at] = await bodyOf(core, live, middle)
    if (shownTime(live.record, middle, at) < time) low = middle + 1
    else high = middle
  }
  return low
}

/** The number of effects of an event and of their pieces, plus one for the event. */
export function countEffects(redo: EventBody[5]): number {
  if (typeof redo !== 'object') return 1
  let effects = 1 + redo.length
  for (const effect of redo) if (effect[0] === 'p') effects += effect[3].length
  return effects
}

/** The number of events of the next read, after a read of `count` events with so many effects. */
export function nextReadCount(count: number, effects: number, most: number): number {
  if (count === 0) return 1
  const wanted = Math.ceil((limits.effectsPerRead * count) / effects)
  return Math.max(1, Math.min(wanted, count * 4, most))
}

/**
 * The stored body of an event.
 *
 * @throws {EngineError} DATA_LOSS when it is missing
 * @throws {EngineError} SESSION_NOT_FOUND when it is missing because the session was deleted
 */
export async function bodyOf(core: Core, live: LiveSession, seq: number): Promise<EventBody> {
  for await (const [event] of core.store.events(live.id, { from: seq, to: seq })) {
    if (event !== undefined) return event.body as unknown as EventBody
  }
  throw live.discarded === 'deleted' ? sessionNotFound(live.id) : eventMissing(live.id, seq)
}
