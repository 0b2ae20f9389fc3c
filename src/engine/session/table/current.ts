import { type Core } from '../core.js'
import type { LiveSession } from './live.js'
import { openSession } from '../history/replay.js'
import { mutate } from '../mutation-queue.js'

/** Changes a session. If it was dropped from memory since it was last used, it is read again. */
export async function onCurrent(
  core: Core,
  sessionId: string,
  change: (live: LiveSession) => Promise<void>,
): Promise<void> {
  const live = core.table.atHand(core.tenantKey, sessionId) ?? (await openSession(core, sessionId))
  return mutate(core, live, () => change(live))
}
