import { limits } from '../../base/limits.js'
import { storeActivity } from './activity.js'
import { inBackground, type Core } from '../core.js'
import type { LiveSession } from './live.js'
import { writeSnapshot } from '../history/snapshot.js'

/** To be called when a session came into memory or changed: where there are too many, idle ones leave. */
export function lookAtMemory(core: Core): void {
  if (core.table.residency.due && !core.fence.closed) inBackground(core, letGo(core))
}

/** One session after the other, so that storing them does not hold up other work. */
async function letGo(core: Core): Promise<void> {
  for (const live of core.table.residency.heavy()) await writeSnapshot(core, live)
  for (const live of core.table.residency.tooMany()) {
    const { usedAt } = live
    // Another caller may be letting it go too, or may have it again.
    const unused = (): boolean => live.idle && live.usedAt === usedAt && core.table.live.get(live.id) === live
    if (!unused()) continue
    if (live.lastActivityAt !== live.activityStoredAt) await storeActivity(core, live)
    if (needsSnapshot(live) && unused()) await writeSnapshot(core, live)
    if (unused() && !needsSnapshot(live)) core.table.residency.leave(live)
  }
}

/** Opening it again would take long, or could not be done at once where it has to be. */
function needsSnapshot(live: LiveSession): boolean {
  return live.slot.synchronous
    ? live.seq !== live.snapshotSeq
    : live.unsnapshotted > limits.eventsWithoutSnapshot
}
