import { limits } from '../../base/limits.js'
import type { SessionRecord, SetBacks } from '../../records/session.js'

/**
 * The time of the next event. A clock that was set back a little is waited for. One far earlier than the newest
 * event is believed: that event was of a clock that was ahead, and time must go on.
 */
export function nextEventTime(now: number, last: number): number {
  return now < last && last - now <= limits.clockHoldMs ? last : now
}

/** The record of a session from the first event on that follows a clock that was set right. */
export function withSetBack(record: SessionRecord, seq: number, at: number): SessionRecord {
  return { ...record, setBacks: addSetBack(record.setBacks, seq, at) }
}

export function addSetBack(known: SetBacks = [], seq: number, at: number): SetBacks {
  // An earlier one to a later time is redundant: this one covers the events before it, too.
  const rest = known.filter(([, time]) => time < at)
  return [...rest.slice(Math.max(0, rest.length + 1 - limits.clockSetBacks)), [seq, at]]
}

/**
 * The shown time of an event: the recorded one, and no later than those of later events. So events of a clock that was
 * ahead are shown with the time at which it was found to be set right, and times of a log never go back.
 */
export function shownTime({ setBacks }: SessionRecord, seq: number, at: number): number {
  const later = setBacks?.find(([first]) => first > seq)
  return later === undefined ? at : Math.min(at, later[1])
}
