import { beforeClose, type Core } from '../core.js'
import { touch } from './activity.js'
import { openUsed } from './expiry.js'
import type { LiveSession } from './live.js'
import type { LongUse } from './session-table.js'
import { isExpired } from './unused.js'

export type LongWork<T> = Promise<T> | ((ended: AbortSignal) => Promise<T>)

/**
 * Waits for work on a session that may take longer than its time to live. The session is in use until the work ends, and
 * does not expire meanwhile. On a shared store, the engine stores the time of the use every minute, because other engines do
 * not know of the work. Call this in the same turn in which the session was found in use. Work that is a function gets a
 * signal, which aborts once the session is deleted or the engine is closed.
 */
export async function whileUsed<T>(core: Core, sessionId: string, work: LongWork<T>): Promise<T> {
  const { inUse } = core.table
  const use: LongUse = inUse.get(sessionId) ?? {
    operations: 0,
    note: () => noteUseOf(core, sessionId),
    ended: new AbortController(),
  }
  const end = (): void => {
    if (--use.operations === 0) inUse.delete(sessionId)
  }
  use.operations++
  inUse.set(sessionId, use)
  try {
    use.note()
    return await (typeof work === 'function' ? work(use.ended.signal) : work)
  } finally {
    noteUseOf(core, sessionId, end)
  }
}

/**
 * Counts as use of a session, unless it has expired, and calls `noted` then. A session with a time to live that was used
 * before, and has left memory, is read again for this.
 */
export function noteUseOf(core: Core, sessionId: string, noted: () => void = ignore): void {
  const { table } = core
  const live = table.atHand(core.tenantKey, sessionId)
  if (live !== undefined) noteUseIn(core, live)
  else if (!table.isClosed && mayExpire(core, sessionId)) {
    const used = openUsed(core, sessionId).then(
      (opened) => noteUseIn(core, opened),
      () => noteUnread(core, sessionId),
    )
    beforeClose(core, used.finally(noted))
    return
  }
  noted()
}

/** Only sessions with a time to live have a last use. That of long work may have been forgotten meanwhile. */
function mayExpire({ table }: Core, sessionId: string): boolean {
  const { inUse, lastUses } = table
  return lastUses.get(sessionId) !== undefined || (lastUses.hasForgotten && inUse.has(sessionId))
}

/** Notes the use of a session by long work if the session could not be read. */
function noteUnread({ clockSpans, environment, table }: Core, sessionId: string): void {
  if (!table.inUse.has(sessionId)) return
  const monotonicMs = clockSpans.note(environment)
  table.lastUses.set(sessionId, { lastActivityAt: environment.wallClockMs(), monotonicMs })
}

function noteUseIn(core: Core, live: LiveSession): void {
  if (isExpired(core, live)) return
  core.table.residency.used(live)
  touch(core, live)
}

function ignore(): void {}
