import { keys } from '../storage/keys.js'
import type { Core } from './core.js'
import type { LiveSession } from './live.js'
import type { SnapshotRecord } from './records.js'

/** Stores the newest state of a session as tree nodes, so that opening it replays only what comes later. */
export async function writeSnapshot(core: Core, live: LiveSession): Promise<void> {
  if (live.discarded || live.seq === live.snapshotSeq) return
  live.snapshotting = true
  try {
    const { seq, lastEventAt: at, chain } = live
    const root = await core.roots.save(live.tree.freeze())
    const snapshot: SnapshotRecord = { seq, at, chain, root }
    await core.store.commit({ put: [[keys.snapshot(live.id, seq), snapshot]] })
    live.snapshotSeq = seq
  } finally {
    live.snapshotting = false
  }
}
