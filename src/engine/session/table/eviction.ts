import { limits } from '../../base/limits.js'
import { storeActivity } from './activity.js'
import { inBackground, type Core } from '../core.js'
import type { LiveSession } from './live.js'
import { writeSnapshot } from '../history/snapshot.js'

/** Evicts idle sessions if memory is over its budget. Call this after a session was loaded or changed. */
export function evictWhenDue(core: Core): void {
  if (core.table.residency.due && !core.fence.closed) inBackground(core, evictIdle(core))
}

/** Processes one session at a time, so that storing snapshots does not delay other work. */
async function evictIdle(core: Core): Promise<void> {
  for (const live of core.table.residency.toSnapshot()) await writeSnapshot(core, live)
  for (const live of core.table.residency.toEvict()) {
    const { usedAt } = live
    // Meanwhile, another call may have evicted the session or used it.
    const unused = (): boolean => live.idle && live.usedAt === usedAt && core.table.live.get(live.id) === live
    if (!unused()) continue
    if (live.lastActivityAt !== live.activityStoredAt) await storeActivity(core, live)
    if (needsSnapshot(live) && unused()) await writeSnapshot(core, live)
    if (unused() && !needsSnapshot(live)) core.table.residency.evict(live)
  }
}

/**
 * Whether the session must be stored first, because opening it would take long or could not happen
 * synchronously.
 */
function needsSnapshot(live: LiveSession): boolean {
  return live.slot.synchronous
    ? live.seq !== live.snapshotSeq
    : live.unsnapshotted > limits.eventsWithoutSnapshot
}
