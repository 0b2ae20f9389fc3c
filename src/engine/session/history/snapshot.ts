import { keys } from '../../storage/keys.js'
import type { Core } from '../core.js'
import type { StoredState } from '../sharing/shared-session.js'
import type { LiveSession } from '../table/live.js'
import type { SnapshotRecord } from '../../records/snapshot.js'

/**
 * Whether a record that refers to an earlier state needs a snapshot of that state in its commit. A running collection
 * may have decided already to remove the redo that leads to it.
 */
export function needsSnapshot({ table, journal }: Core): boolean {
  return table.isCollecting && journal.kept(() => true) === true
}

/**
 * Stores the newest state of a session as tree nodes, so that opening it replays only later events. If a
 * snapshot is being written, waits for that one and writes no other.
 */
export async function writeSnapshot(core: Core, live: LiveSession): Promise<void> {
  if (live.snapshotting !== undefined) return live.snapshotting
  if (live.discarded || live.seq === live.snapshotSeq) return
  using _ = core.pins.pin({ writesSince: 'now' })
  const stored = storeSnapshot(core, live)
  live.snapshotting = stored.catch(() => undefined)
  try {
    await stored
  } finally {
    live.snapshotting = undefined
  }
}

async function storeSnapshot(core: Core, live: LiveSession): Promise<void> {
  // Other engines may be first with events in place of those that are not stored yet.
  const { root: state, seq, at, chain } = live.shared?.stored ?? newestOf(live)
  if (seq === live.snapshotSeq) return
  // Nodes that are stored already are not written again, and the record that refers to them comes later.
  using _ = core.pins.pin({ roots: [state] })
  const made = live.tree.madeBytes
  let size = 0
  const root = await core.roots.save(state, (wrote) => (size = wrote))
  // The session may have been dropped because one of its changes was not stored. A deleted session gets no
  // snapshot either.
  if (live.discarded !== undefined) return
  const snapshot: SnapshotRecord = { seq, at, chain, root }
  await core.store.commit({ put: [[keys.snapshot(live.id, seq), snapshot]] })
  live.snapshotSeq = seq
  live.storedBytes = made
  live.snapshotSize = size
}

function newestOf(live: LiveSession): Omit<StoredState, 'bytesWritten'> {
  return { root: live.tree.freeze(), seq: live.seq, at: live.lastEventAt, chain: live.chain }
}
