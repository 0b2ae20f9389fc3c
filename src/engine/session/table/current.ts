import { type Core } from '../core.js'
import type { LiveSession } from './live.js'
import { openSession } from '../history/replay.js'
import { mutate } from '../mutation-queue.js'

/** A session in memory. If it was dropped since it was last used, it is read again. */
export async function currentOf(core: Core, sessionId: string): Promise<LiveSession> {
  return core.table.atHand(core.tenantKey, sessionId) ?? (await openSession(core, sessionId))
}

/** Changes a session. If it was dropped from memory since it was last used, it is read again. */
export async function onCurrent(
  core: Core,
  sessionId: string,
  change: (live: LiveSession) => Promise<void>,
): Promise<void> {
  const live = await currentOf(core, sessionId)
  return mutate(core, live, () => change(live))
}
