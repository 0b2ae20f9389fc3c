import { limits } from '../../base/limits.js'
import type { Core } from '../core.js'
import type { SessionRecord } from '../../records/session.js'

/** The fields of a session that decide whether it is expired. */
export interface Expiring {
  readonly record: SessionRecord
  readonly lastActivityAt: number
}

/**
 * Whether a session was unused for its whole time to live.
 *
 * A deletion is permanent and the wall clock may be wrong, so the wall clock alone never decides. While this
 * process runs, time is measured by the monotonic clock. A session that was last used before the engine was opened is only
 * checked after the engine has been open for a while. By then the wall clock may have been corrected, and it must still
 * agree.
 */
export function isExpired(core: Core, { record, lastActivityAt }: Expiring): boolean {
  let ttlMs = ttlMsOf(core, record)
  if (ttlMs === undefined || core.table.inUse.has(record.id)) return false
  const { environment, opened, clockSpans } = core
  const use = core.table.lastUses.get(record.id)
  if (use !== undefined) {
    if (environment.monotonicMs() - use.monotonicMs < ttlMs) return false
    // Another engine may have used it later.
    if (core.sharing === undefined || use.lastActivityAt === lastActivityAt) return true
  }
  // This engine may have used it later than the time that is stored.
  else if (core.sharing === undefined && core.table.lastUses.hasForgotten) ttlMs += reserveMs
  const monotonicMs = clockSpans.note(environment)
  const now = environment.wallClockMs()
  /** The clock was wrong at the last use, so the real time of that use is unknown. The time to live starts now. */
  const beginNow = (): false => {
    core.table.lastUses.set(record.id, { lastActivityAt, monotonicMs })
    return false
  }
  if (lastActivityAt - now > limits.clockHoldMs || isBeforeCreation(record, lastActivityAt)) return beginNow()
  if (now - lastActivityAt < ttlMs) return false
  const usedAt = clockSpans.shownAt(lastActivityAt)
  if (usedAt !== undefined) return monotonicMs - usedAt >= ttlMs
  // Another engine may have used the session while the clock that jumps showed it a time that it never showed this one.
  if (core.sharing !== undefined && clockSpans.hasJumped) return beginNow()
  const open = monotonicMs - opened.monotonicMs
  const before = opened.wallMs - lastActivityAt
  return open >= Math.max(ttlMs - before, Math.min(ttlMs, limits.expirySecondLookMs))
}

/** Call this when a session is used. */
export function noteUse(core: Core, record: SessionRecord, lastActivityAt: number): void {
  if (ttlMsOf(core, record) === undefined) return
  const { environment, clockSpans, table } = core
  table.lastUses.set(record.id, { lastActivityAt, monotonicMs: clockSpans.note(environment) })
}

/**
 * The time of the latest of several uses of a session. If the clock was ahead or slow, and has been corrected, that need not
 * be the largest time. Any use within the time to live keeps the session.
 */
export function latestUse(core: Core, record: SessionRecord, times: readonly number[]): number {
  const latest = Math.max(...times)
  const ttlMs = ttlMsOf(core, record)
  if (ttlMs === undefined) return latest
  const { environment, clockSpans } = core
  const monotonicMs = clockSpans.note(environment)
  const now = environment.wallClockMs()
  const use = core.table.lastUses.get(record.id)
  const sinceMs = (time: number): number => {
    const usedAt = use?.lastActivityAt === time ? use.monotonicMs : clockSpans.shownAt(time)
    if (usedAt !== undefined) return monotonicMs - usedAt
    return time - now > limits.clockHoldMs ? Number.POSITIVE_INFINITY : now - time
  }
  const [newest] = times.toSorted((a, b) => sinceMs(a) - sinceMs(b))
  return newest !== undefined && sinceMs(newest) < ttlMs ? newest : latest
}

/** Whether the last use seems older than the session. The clock was wrong at one of the two times. */
function isBeforeCreation({ createdAt }: SessionRecord, lastActivityAt: number): boolean {
  return createdAt - lastActivityAt > limits.clockHoldMs
}

/**
 * An engine may not have stored its last read yet. The clock may have gone back and come back by up to as much as jumps are
 * not noticed, while the session was used.
 */
const reserveMs = limits.activityStoredMs + 2 * limits.clockHoldMs

/** On a shared store, with the reserve for uses by other engines. */
function ttlMsOf(core: Core, record: SessionRecord): number | undefined {
  const seconds = record.ttlSeconds ?? core.sessionTtlSeconds
  if (seconds === undefined) return undefined
  return seconds * 1000 + (core.sharing === undefined ? 0 : reserveMs)
}
