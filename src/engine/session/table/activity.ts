import { limits } from '../../base/limits.js'
import { keys } from '../../storage/keys.js'
import { getSyncOrAsync } from '../../storage/sync-or-async.js'
import { inBackground, type Core } from '../core.js'
import type { EventBody } from '../../records/event.js'
import { latestUse, noteUse } from './unused.js'
import type { LiveSession } from './live.js'
import type { SessionRecord } from '../../records/session.js'

/** Records a read as activity. Its time is kept in memory, and stored at most once a minute and on close. */
export function touch(core: Core, live: LiveSession): void {
  const now = core.environment.wallClockMs()
  // If the clock was ahead and has been corrected, the earlier time is accepted.
  if (now <= live.lastActivityAt && live.lastActivityAt - now <= limits.clockHoldMs)
    return noteUse(core, live.record, live.lastActivityAt)
  live.lastActivityAt = now
  noteUse(core, live.record, now)
  if (Math.abs(now - live.activityStoredAt) < limits.activityStoredMs) return
  const stored = core.journal.kept(() => storeActivity(core, live))
  if (stored !== undefined) inBackground(core, stored)
}

/** Stores the time of the session's last read, unless its newest event has that time. */
export async function storeActivity(core: Core, live: LiveSession): Promise<void> {
  const at = live.lastActivityAt
  if (at === live.activityStoredAt) return
  live.activityStoredAt = at
  await core.store.commit({ put: [[keys.lastRead(live.id), String(at)]] })
}

/** The stored time of a session's last read; 0 if none is stored. */
export async function storedRead(core: Core, sessionId: string): Promise<number> {
  const key = keys.lastRead(sessionId)
  const text = await getSyncOrAsync(core.store, key)
  return Number(text ?? 0)
}

/**
 * The times of last activity of any sessions, including deleted ones. Sessions that are not in memory are
 * read several at a time.
 */
export async function lastActivities(core: Core, sessions: readonly SessionRecord[]): Promise<number[]> {
  const times: number[] = []
  for (let start = 0; start < sessions.length; start += limits.activityReadsAtOnce) {
    const some = sessions.slice(start, start + limits.activityReadsAtOnce)
    times.push(...(await Promise.all(some.map((session) => lastActivity(core, session)))))
  }
  return times
}

async function lastActivity(core: Core, session: SessionRecord): Promise<number> {
  if (session.deletedAt !== undefined) return session.deletedAt
  const live = core.table.inMemory(core.tenantKey, session.id)
  // Another engine may have used the session since.
  if (live !== undefined && live.shared === undefined) return live.lastActivityAt
  const last = await core.store.lastEvent(session.id)
  const changedAt = last === undefined ? session.createdAt : (last.body as unknown as EventBody)[0]
  const usedAt = live?.lastActivityAt ?? core.table.lastUses.get(session.id)?.lastActivityAt ?? 0
  return latestUse(core, session, [changedAt, await storedRead(core, session.id), usedAt])
}
