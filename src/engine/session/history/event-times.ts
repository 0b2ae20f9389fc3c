import { limits } from '../../base/limits.js'
import type { SessionRecord, SetBacks } from '../../records/session.js'

/**
 * The time of the next event. If the clock was set back a little, new events repeat the time of the newest
 * event until the clock has caught up. If the clock is far earlier than the newest event, the clock was ahead
 * at that event and has been corrected, so the new event gets the current time.
 */
export function nextEventTime(now: number, last: number): number {
  return now < last && last - now <= limits.clockHoldMs ? last : now
}

/**
 * The record of a session after its clock was corrected. `seq` and `at` are those of the first event after
 * the correction.
 */
export function withSetBack(record: SessionRecord, seq: number, at: number): SessionRecord {
  return { ...record, setBacks: addSetBack(record.setBacks, seq, at) }
}

export function addSetBack(known: SetBacks = [], seq: number, at: number): SetBacks {
  // A known correction to the same or a later time is redundant: this one covers the events before it, too.
  const rest = known.filter(([, time]) => time < at)
  return [...rest.slice(Math.max(0, rest.length + 1 - limits.clockSetBacks)), [seq, at]]
}

/**
 * The shown time of an event: its recorded time, but not later than the times of later events. For example,
 * an event that was recorded while the clock was ahead is shown with the time at which the clock was found to
 * be corrected. So the times of a log never decrease.
 */
export function shownTime({ setBacks }: SessionRecord, seq: number, at: number): number {
  const later = setBacks?.find(([first]) => first > seq)
  return later === undefined ? at : Math.min(at, later[1])
}
