import { limits } from '../../base/limits.js'
import type { Core } from '../core.js'
import type { SessionRecord } from '../../records/session.js'

/** The fields of a session that matter here. */
export interface Expiring {
  readonly record: SessionRecord
  readonly lastActivityAt: number
}

/**
 * Whether a session was unused for its whole time to live. A deletion is for ever, and the wall clock may be wrong,
 * so it alone decides nothing. Time in this process is that of its monotonic clock. A session that had expired when
 * the engine was opened is checked again once the engine has been open for a while. The wall clock, which
 * may have been set right, must then still agree.
 */
export function isExpired(core: Core, { record, lastActivityAt }: Expiring): boolean {
  const ttlMs = ttlMsOf(core, record)
  if (ttlMs === undefined) return false
  const { environment, opened } = core
  const now = environment.wallClockMs()
  const monotonicMs = environment.monotonicMs()
  const use = core.table.unsureUses.get(record.id)
  if (use?.lastActivityAt === lastActivityAt) return monotonicMs - use.monotonicMs >= ttlMs
  if (lastActivityAt - now > limits.clockHoldMs) {
    // Of a clock that was ahead: when it was is not known, so its time starts now.
    core.table.unsureUses.set(record.id, { lastActivityAt, monotonicMs })
    return false
  }
  if (now - lastActivityAt < ttlMs) return false
  const open = monotonicMs - opened.monotonicMs
  const before = opened.wallMs - lastActivityAt
  return before >= ttlMs ? open >= Math.min(ttlMs, limits.expirySecondLookMs) : before + open >= ttlMs
}

/** Call this when a session is used: if the wall clock is wrong, its time may make no sense later. */
export function noteUse(core: Core, record: SessionRecord, lastActivityAt: number): void {
  if (ttlMsOf(core, record) === undefined) return
  const { environment, opened } = core
  const monotonicMs = environment.monotonicMs()
  const expected = opened.wallMs + monotonicMs - opened.monotonicMs
  if (Math.abs(lastActivityAt - expected) > limits.clockHoldMs)
    core.table.unsureUses.set(record.id, { lastActivityAt, monotonicMs })
}

function ttlMsOf(core: Core, record: SessionRecord): number | undefined {
  const seconds = record.ttlSeconds ?? core.sessionTtlSeconds
  return seconds === undefined ? undefined : seconds * 1000
}
