import { keys } from '../../storage/keys.js'
import { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'
import { prunedTo, redoAfter, snapshotsOf } from '../history/prune.js'
import type { LiveSession } from '../table/live.js'
import { snapshotKind } from '../../records/snapshot.js'
import { bytesOf, bytesWritten, setBytesWritten } from './session-bytes.js'
import { treeChanges } from '../tree-changes.js'

/**
 * Counts the bytes that a session wrote: the bytes in its kept redo, plus the bytes of files in its first
 * snapshot that its base does not have. Call this before the first change of the session, and after its redo
 * was pruned.
 */
export async function countSessionBytes(core: Core, live: LiveSession): Promise<void> {
  if (core.sessionBytes === undefined) return
  const { shared } = live
  const [before, to, restarts] = [bytesWritten(live), live.seq, shared?.restarts]
  await live.acknowledged.catch(() => undefined)
  const pruned = prunedTo(await snapshotsOf(core, live.id))
  let bytes = 0
  if (pruned > 0) {
    const json = await core.store.get(keys.snapshot(live.id, pruned))
    if (json !== undefined) {
      const root = core.roots.load(snapshotKind.parse(json).root)
      for await (const { after } of treeChanges(core, live.baseline, root))
        if (after instanceof FileNode) bytes += after.size
    }
  }
  for await (const page of redoAfter(core, live.id, pruned, to))
    for (const { body } of page) if (typeof body[5] === 'object') bytes += bytesOf(body[5])
  // Another engine changed the session meanwhile. The next count is exact.
  if (shared?.restarts !== restarts) return
  // Bytes that were written during the count stay counted.
  setBytesWritten(live, bytesWritten(live) + bytes - before)
  shared?.recount(bytes - before)
}
