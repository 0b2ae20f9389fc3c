import { beforeClose, type Core } from '../core.js'
import { touch } from './activity.js'
import { openUsed } from './expiry.js'
import type { LiveSession } from './live.js'
import { isExpired } from './unused.js'

/**
 * Waits for work on a session that may take longer than its time to live. The session is in use until the work ends, and
 * does not expire meanwhile. On a shared store, the engine stores the time of the use every minute, because other engines do
 * not know of the work. Call this in the same turn in which the session was found in use.
 */
export async function whileUsed<T>(core: Core, sessionId: string, work: Promise<T>): Promise<T> {
  const { inUse } = core.table
  const use = inUse.get(sessionId) ?? { operations: 0, note: () => noteUseOf(core, sessionId) }
  const end = (): void => {
    if (--use.operations === 0) inUse.delete(sessionId)
  }
  use.operations++
  inUse.set(sessionId, use)
  try {
    use.note()
    return await work
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
  // Only sessions with a time to live have a last use.
  else if (!table.isClosed && table.lastUses.get(sessionId) !== undefined) {
    const used = openUsed(core, sessionId).then((opened) => noteUseIn(core, opened), ignore)
    beforeClose(core, used.finally(noted))
    return
  }
  noted()
}

function noteUseIn(core: Core, live: LiveSession): void {
  if (isExpired(core, live)) return
  core.table.residency.used(live)
  touch(core, live)
}

function ignore(): void {}
