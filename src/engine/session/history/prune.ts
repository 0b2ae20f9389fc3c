import { firstWhere } from '../../base/ascending.js'
import { TimeSlice } from '../../base/cooperative.js'
import { onlyItem, present } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import type { NewStoredEvent, StoreCommit } from '../../storage/store.js'
import { digestRedo } from './chain.js'
import type { Dir } from '../../tree/node.js'
import type { Core } from '../core.js'
import type { Baseline } from '../../records/baseline.js'
import type { EventBody } from '../../records/event.js'
import { branchingTargets, type Restore } from './branchings.js'
import { collectionTurns, stateAt } from './replay.js'
import { countEffects, nextReadCount } from './stored-events.js'
import { snapshotKind, type SnapshotRecord } from '../../records/snapshot.js'
import { lineageKind, type LineageRecord } from '../../records/lineage.js'
import { mergeKind } from '../../records/merge.js'
import { checkpointKind } from '../../records/checkpoint.js'
import type { SessionRecord } from '../../records/session.js'
import { planHistory, type HistoryFacts, type HistoryPlan } from './retention.js'

/** The plan for a session's history, and the last event whose redo was pruned before. */
export interface SettledHistory {
  readonly sessionId: string
  readonly plan: HistoryPlan
  readonly prunedTo: number
}

/** The states of a session that other sessions refer to, because they started from them or merged them. */
export interface ReferencedStates {
  /** Without `seq`, whether there is any. */
  has(sessionId: string, seq?: number): boolean
}

/** The length of the hash of a redo, as JSON. */
const redoHashLength = 45

/** The snapshots of a session, oldest first. */
export async function snapshotsOf(core: Core, sessionId: string): Promise<SnapshotRecord[]> {
  const snapshots: SnapshotRecord[] = []
  for await (const page of scanAll(core, keys.snapshots(sessionId)))
    for (const [, json] of page) snapshots.push(snapshotKind.parse(json))
  return snapshots
}

/** The last event whose redo was pruned; 0 if there is none. */
export function prunedTo(snapshots: readonly SnapshotRecord[]): number {
  return snapshots.findLast(({ pruned }) => pruned)?.seq ?? 0
}

/** The stored events after `seq` up to `to`, in pages with about the same number of effects. */
export async function* redoAfter(
  core: Core,
  sessionId: string,
  seq: number,
  to: number,
): AsyncGenerator<readonly HistoryEvent[], void> {
  let count: number = limits.prunedAtFirst
  for (let from = seq + 1; from <= to;) {
    let effects = 0
    const last = Math.min(to, from + count - 1)
    for await (const page of core.store.events(sessionId, { from, to: last })) {
      const events = page as unknown as readonly HistoryEvent[]
      yield events
      for (const { body } of events) effects += countEffects(body[5])
    }
    count = nextReadCount(last - from + 1, effects, limits.eventsPerRead)
    from = last + 1
  }
}

interface HistoryEvent {
  readonly seq: number
  readonly body: EventBody
}

/** The number of the newest stored event of a session; 0 if there is none. */
export async function newestSeq(core: Core, sessionId: string): Promise<number> {
  return (await core.store.lastEvent(sessionId))?.seq ?? 0
}

/** Whether only the newest state is referenced, and replay starts there. */
function isSettled(snapshots: readonly SnapshotRecord[], last: number): boolean {
  const only = onlyItem(snapshots)
  return only !== undefined && only.seq === last && only.pruned === true
}

const nothingToDo: HistoryPlan = { write: [], drop: [], pruneTo: 0 }

async function factsOf(
  core: Core,
  { id: sessionId, base }: SessionRecord,
  { snapshots, last }: { readonly snapshots: readonly SnapshotRecord[]; readonly last: number },
): Promise<HistoryFacts> {
  const facts = {
    last,
    referenced: [...(core.pins.statesOf(sessionId) ?? [])],
    snapshots: snapshots.map(({ seq }) => seq),
    prunedTo: prunedTo(snapshots),
    restores: [] as [number, number][],
    gaps: [] as [number, number][],
    hasBase: base !== undefined,
  }
  for await (const page of scanAll(core, keys.checkpoints(sessionId), { reverse: true }))
    for (const [, json] of page) facts.referenced.push(checkpointKind.parse(json).seq)
  // The state before a merge with conflicts can be restored by aborting the merge.
  const merge = await core.store.get(keys.merge(sessionId))
  if (merge !== undefined) facts.referenced.push(mergeKind.parse(merge).seq - 1)
  // A checkpoint may have been restored and deleted since `last` was read. The session then depends on its
  // state.
  const newest = await newestSeq(core, sessionId)
  // Events that are written after this point come after every state in the plan, or restore one of these
  // states.
  for await (const page of redoAfter(core, sessionId, facts.prunedTo, newest)) {
    for (const { seq, body } of page) {
      const redo = body[5]
      if (seq > facts.last) {
        if (typeof redo === 'object' && redo[0]?.[0] === 'R' && redo[0][1] < facts.last)
          facts.referenced.push(redo[0][1])
      } else if (typeof redo === 'string') {
        const gap = facts.gaps.at(-1)
        if (gap?.[1] === seq - 1) gap[1] = seq
        else facts.gaps.push([seq, seq])
      } else if (redo?.[0]?.[0] === 'R') facts.restores.push([seq, redo[0][1]])
    }
  }
  // A fork that is made after this point starts from the last state, a later one, or a referenced one.
  for (const seq of core.pins.forksOf(sessionId) ?? []) if (seq < facts.last) facts.referenced.push(seq)
  return facts
}

/**
 * Stores the snapshots that make a session independent of older redo, and of the session that it was forked
 * from. It removes nothing yet.
 */
export async function prepareHistory(
  core: Core,
  session: SessionRecord,
  { keepRedo, references }: { readonly keepRedo: boolean; readonly references: ReferencedStates },
): Promise<SettledHistory> {
  await keepForkBase(core, session)
  const snapshots = await snapshotsOf(core, session.id)
  const last = await newestSeq(core, session.id)
  // Most sessions have not changed since the last collection.
  if (isSettled(snapshots, last)) return { sessionId: session.id, plan: nothingToDo, prunedTo: last }
  const facts = await factsOf(core, session, { snapshots, last })
  const plan = planHistory(facts, { keepRedo, spacing: limits.eventsPerSnapshot })
  for (const seq of plan.write) await storeState(core, session.id, seq)
  if (plan.pruneTo > facts.prunedTo || plan.drop.length > 0)
    await keepBranchings(core, session.id, { referenced: [...facts.referenced, last], references })
  return { sessionId: session.id, plan, prunedTo: facts.prunedTo }
}

/**
 * Stores the state that a fork started from, once. A merge needs it after the history of the parent or of the
 * fork was pruned.
 */
async function keepForkBase(core: Core, { id, base }: SessionRecord): Promise<void> {
  if (base === undefined) return
  const key = keys.lineage(id, 0)
  if ((await core.store.get(key)) !== undefined) return
  await keepStep(core, id, { seq: 0, states: [0] })
}

/** Stores the states of a deleted session that merges of its forks may start from. */
export async function keepLineage(
  core: Core,
  session: SessionRecord,
  references: ReferencedStates,
): Promise<void> {
  await keepForkBase(core, session)
  await keepBranchings(core, session.id, { referenced: [await newestSeq(core, session.id)], references })
}

/**
 * Stores the states that restores led to, and from which a later merge may start, once. For example, a fork started from
 * the state 5, and then the session was restored to 3. A merge of the fork compares with 3, which no checkpoint may name.
 */
async function keepBranchings(
  core: Core,
  sessionId: string,
  {
    referenced,
    references,
  }: { readonly referenced: readonly number[]; readonly references: ReferencedStates },
): Promise<void> {
  const restores: Restore[] = []
  /** The baselines of the restores that aborted a rebase. */
  const baselines = new Map<number, Baseline>()
  const kept = new Set(referenced)
  for await (const page of scanAll(core, keys.lineages(sessionId))) {
    for (const [key, json] of page) {
      const { seq, restored, root, before } = lineageKind.parse(json, key)
      if (restored === undefined) continue
      restores.push([seq, restored])
      if (before !== undefined) baselines.set(seq, before)
      if (root !== undefined) kept.add(restored)
    }
  }
  if (restores.every(([, target]) => kept.has(target))) return
  const known = [...referenced]
  if (references.has(sessionId)) {
    const slice = new TimeSlice(core.environment)
    // Only states that a restore undid may be on another branch than the newest one. Each is looked up once.
    let first = Number.POSITIVE_INFINITY
    for (const [restore, target] of restores.toReversed()) {
      for (let seq = Math.min(restore, first) - 1; seq > target; seq--) {
        if (references.has(sessionId, seq)) known.push(seq)
        if (slice.over) await slice.next()
      }
      first = Math.min(first, target + 1)
    }
  }
  for (const target of branchingTargets(restores, known)) {
    if (kept.has(target)) continue
    const leading = restores.filter((restore) => restore[1] === target).map(([seq]) => seq)
    const seq = present(leading.at(-1), 'the restore to a state')
    // A collection may have pruned the state just before one of the restores, which then stored a snapshot.
    const before = baselines.get(seq)
    const step = { seq, restored: target, ...(before && { before }) }
    await keepStep(core, sessionId, { ...step, states: [target, ...leading] })
  }
}

/** Stores a state with the step of a session's ancestry that refers to it. `states`: events that it is the state after. */
async function keepStep(
  core: Core,
  sessionId: string,
  { states, ...step }: Omit<LineageRecord, 'root'> & { readonly states: readonly number[] },
): Promise<void> {
  using _ = core.pins.pin({ writesSince: 'now' })
  let root: Dir | undefined
  for (const seq of states) {
    try {
      root = (await stateAt(core, sessionId, seq, collectionTurns)).root
      break
    } catch (error) {
      // A collection pruned it.
      if (!(error instanceof EngineError && error.reason === 'DATA_LOSS')) throw error
    }
  }
  if (root === undefined) return
  const record: LineageRecord = { ...step, root: await core.roots.save(root) }
  await core.store.commit({ put: [[keys.lineage(sessionId, step.seq), record]] })
  const live = core.table.live.get(sessionId)
  if (live === undefined) return
  live.addedSteps++
  if (live.lineage === undefined) return
  const index = firstWhere(live.lineage, ({ seq }) => seq >= step.seq)
  live.lineage.splice(index, live.lineage[index]?.seq === step.seq ? 1 : 0, record)
}

/** Stores the state after an event as a snapshot. Seq 0 is the state that the session started from. */
export async function storeState(core: Core, sessionId: string, seq: number): Promise<void> {
  using _ = core.pins.pin({ writesSince: 'now' })
  const { at, chain, root } = await stateAt(core, sessionId, seq, collectionTurns)
  const snapshot: SnapshotRecord = { seq, at, chain, root: await core.roots.save(root) }
  await core.store.commit({ put: [[keys.snapshot(sessionId, seq), snapshot]] })
}

/**
 * Removes redo and snapshots that are no longer needed. Returns the number of pruned events, the number of
 * deleted snapshots, and the freed bytes of redo. If it is interrupted, the next call completes the work. If a
 * call went back to an earlier state meanwhile, it removes nothing, because the plan does not know of that.
 */
export async function pruneHistory(core: Core, history: SettledHistory): Promise<PrunedHistory> {
  const { sessionId } = history
  if (core.pins.isRevisited(sessionId)) return { events: 0, snapshots: 0, bytes: 0 }
  return core.pins.whileRemoving(sessionId, removeHistory(core, history))
}

interface PrunedHistory {
  readonly events: number
  readonly snapshots: number
  readonly bytes: number
}

async function removeHistory(
  core: Core,
  { sessionId, plan, prunedTo: before }: SettledHistory,
): Promise<PrunedHistory> {
  let events = 0
  let bytes = 0
  const commit = async (records: StoreCommit): Promise<void> => {
    await core.store.commit(records)
  }
  if (plan.pruneTo > before) {
    for await (const page of redoAfter(core, sessionId, before, plan.pruneTo)) {
      const replaceEvents: NewStoredEvent[] = []
      for (const { seq, body } of page) {
        const redo = body[5]
        if (typeof redo === 'string' || redo === undefined) continue
        const { hash, length } = await digestRedo(redo)
        // A redo that is shorter than its hash refers to no content.
        if (length <= redoHashLength) continue
        const pruned = [...body.slice(0, 5), hash]
        replaceEvents.push({ sessionId, seq, body: pruned })
        bytes += length - redoHashLength
      }
      events += replaceEvents.length
      if (replaceEvents.length > 0) await commit({ replaceEvents })
    }
    const key = keys.snapshot(sessionId, plan.pruneTo)
    const first = await core.store.get(key)
    if (first !== undefined) await commit({ put: [[key, { ...snapshotKind.parse(first), pruned: true }]] })
  }
  const del = plan.drop.map((seq) => keys.snapshot(sessionId, seq))
  for (let from = 0; from < del.length; from += limits.recordsPerCommit)
    await commit({ del: del.slice(from, from + limits.recordsPerCommit) })
  return { events, snapshots: del.length, bytes }
}
