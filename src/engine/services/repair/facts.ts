import { chainStart, expectedLink } from '../../session/history/chain.js'
import { contentsOf, type EventBody } from '../../records/event.js'
import { scanAll } from '../../storage/scan-all.js'
import { snapshotKind, type SnapshotRecord } from '../../records/snapshot.js'
import { checkpointKind, type CheckpointRecord } from '../../records/checkpoint.js'
import { keys } from '../../storage/keys.js'
import type { RepairContext } from './context.js'
import type { RecordKind } from '../../records/record-kind.js'

/** The remains of a session's history. */
export interface SessionFacts {
  /** The last event of the intact chain: from the first event on, each is linked to the one before it. */
  readonly last: number
  /** The newest event that is known to have existed, from events, snapshots and `lostEvents`. */
  readonly newest: number
  readonly gaps: number[]
  readonly restores: [seq: number, target: number][]
  /** Hashes of lost contents that the redo of events needs. */
  readonly lostBlobs: Set<string>
  readonly snapshots: SnapshotRecord[]
  readonly wholeSnapshots: Set<number>
  readonly checkpoints: CheckpointRecord[]
}

export async function readFacts(context: RepairContext, sessionId: string): Promise<SessionFacts> {
  const { from, mender, roots, hasBlob, lostEvents, slice } = context
  const snapshots = await readRecords(context, snapshotKind, keys.snapshots(sessionId))
  const checkpoints = await readRecords(context, checkpointKind, keys.checkpoints(sessionId))
  const wholeSnapshots = new Set<number>()
  for (const { seq, root } of snapshots)
    if ((await mender.mend(roots.load(root))).lost.length === 0) wholeSnapshots.add(seq)
  const pruned = snapshots.findLast((snapshot) => snapshot.pruned)?.seq ?? 0
  const gaps: number[] = []
  const restores: [number, number][] = []
  const lostBlobs = new Set<string>()
  let last = 0
  let newest = Math.max(snapshots.at(-1)?.seq ?? 0, lostEvents.get(sessionId) ?? 0)
  let link = chainStart
  for await (const page of from.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY })) {
    for (const { seq, body } of page) {
      const event = body as unknown as EventBody
      newest = Math.max(newest, seq)
      if (seq !== last + 1 || event[4] === undefined || event[4] !== (await expectedLink(event, link)))
        continue
      last = seq
      link = event[4]
      const redo = event[5]
      if (typeof redo === 'string') gaps.push(seq)
      else if (redo?.[0]?.[0] === 'R') restores.push([seq, redo[0][1]])
      else if (redo !== undefined && seq > pruned) {
        for (const [hash, length] of contentsOf(redo)) if (!hasBlob(hash, length)) lostBlobs.add(hash)
      }
    }
    if (slice.over) await slice.next()
  }
  return { last, newest, gaps, restores, lostBlobs, snapshots, wholeSnapshots, checkpoints }
}

/** The intact records of a kind below a prefix. Reports damaged ones as dropped. */
export async function readRecords<R>(
  { from, drop }: RepairContext,
  kind: RecordKind<R>,
  prefix: string,
): Promise<R[]> {
  const records: R[] = []
  for await (const page of scanAll({ store: from }, prefix)) {
    for (const [key, json] of page) {
      try {
        records.push(kind.parse(json, key))
      } catch {
        drop({ object: `record ${key}`, message: 'it is damaged' })
      }
    }
  }
  return records
}
