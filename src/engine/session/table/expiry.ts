import { given } from '../../base/input.js'
import { invalid } from '../../base/errors.js'
import { sessionNotFound, type Core } from '../core.js'
import type { LiveSession } from './live.js'
import { openSession } from '../history/replay.js'
import { Overtaken } from '../sharing/shared-session.js'
import { storedRead } from './activity.js'
import { isExpired, latestUse } from './unused.js'

/**
 * Checks an optional time to live, in seconds.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is not a whole number from 1.
 */
export function parseTtl(field: string, seconds: number | undefined): number | undefined {
  if (seconds !== undefined && (!Number.isSafeInteger(seconds) || seconds < 1))
    throw invalid(field, `must be a whole number of seconds from 1; it is ${given(seconds)}`)
  return seconds
}

/** A session that is in memory, not expired and new enough, without waiting. Undefined for any other session. */
export function usedNow(core: Core, sessionId: string): LiveSession | undefined {
  const live = core.table.atHand(core.tenantKey, sessionId)
  if (live === undefined || isExpired(core, live)) return undefined
  return core.sharing?.isFresh(core, live) === false ? undefined : live
}

/**
 * A session that exists and has not expired, in a state that is new enough.
 *
 * @throws {EngineError} SESSION_NOT_FOUND when there is none.
 */
export async function openUsed(core: Core, sessionId: string): Promise<LiveSession> {
  for (;;) {
    const known = core.table.atHand(core.tenantKey, sessionId) ?? (await openSession(core, sessionId))
    const live = isExpired(core, known) ? await expireNow(core, sessionId) : known
    if (core.sharing === undefined) return live
    await core.sharing.freshen(core, live)
    // Another engine may have deleted it.
    if (live.discarded === undefined) return live
  }
}

/**
 * Deletes an expired session. Returns it if it was used meanwhile.
 *
 * @throws {EngineError} SESSION_NOT_FOUND once the session is deleted.
 */
export async function expireNow(core: Core, sessionId: string): Promise<LiveSession> {
  for (;;) {
    const live = await openSession(core, sessionId)
    if (core.sharing !== undefined) {
      await core.sharing.freshen(core, live)
      const readAt = await storedRead(core, sessionId)
      live.lastActivityAt = latestUse(core, live.record, [live.lastActivityAt, live.lastEventAt, readAt])
    }
    if (live.discarded === undefined && !isExpired(core, live)) return live
    try {
      if (await core.expire(core, sessionId)) throw sessionNotFound(sessionId)
    } catch (error) {
      if (!(error instanceof Overtaken)) throw error
    }
  }
}
