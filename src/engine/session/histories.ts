import { limits } from '../base/limits.js'
import { keys, prefixEnd } from '../storage/keys.js'
import type { NewStoredEvent, Store, StoreCommit } from '../storage/store.js'
import { redoHash } from './chain.js'
import type { Core } from './core.js'
import type { EventBody } from './events.js'
import { heldStates } from './held-states.js'
import { stateAt } from './recovery.js'
import type { CheckpointRecord, SessionRecord, SnapshotRecord } from './records.js'
import { planHistory, type HistoryFacts, type HistoryPlan } from './retention.js'

/** What becomes of a session's history, and the snapshot that replay is to start from. */
export interface SettledHistory {
  readonly sessionId: string
  readonly plan: HistoryPlan
  readonly prunedTo: number
}

/** The hash of a redo as JSON. */
const redoHashLength = 45

/** Every record below a prefix, in pages. */
export async function* scanAll(
  core: { readonly store: Pick<Store, 'scan'> },
  prefix: string,
  pageSize = limits.recordsPerScan,
): AsyncGenerator<readonly (readonly [key: string, value: string])[], void> {
  for (let gte = prefix; ;) {
    const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: pageSize })
    if (found.length > 0) yield found
    if (found.length < pageSize) return
    gte = `${found.at(-1)![0]}\0`
  }
}

/** The snapshots of a session, the oldest first. */
export async function snapshotsOf(core: Core, sessionId: string): Promise<SnapshotRecord[]> {
  const snapshots: SnapshotRecord[] = []
  for await (const page of scanAll(core, keys.snapshots(sessionId)))
    for (const [, json] of page) snapshots.push(JSON.parse(json) as SnapshotRecord)
  return snapshots
}

/** Up to which event the redo of a session is not kept. */
export function prunedTo(snapshots: readonly SnapshotRecord[]): number {
  return snapshots.findLast(({ pruned }) => pruned)?.seq ?? 0
}

/** The events behind one, as they are stored, in pages. */
export async function* redoBehind(
  core: Core,
  sessionId: string,
  seq: number,
  to = Number.POSITIVE_INFINITY,
): AsyncGenerator<readonly { readonly seq: number; readonly body: EventBody }[], void> {
  for await (const page of core.store.events(sessionId, { from: seq + 1, to }))
    yield page as unknown as readonly { readonly seq: number; readonly body: EventBody }[]
}

async function factsOf(core: Core, { id: sessionId, base }: SessionRecord): Promise<HistoryFacts> {
  const snapshots = await snapshotsOf(core, sessionId)
  const facts = {
    last: (await core.store.lastEvent(sessionId))?.seq ?? 0,
    named: [...(heldStates(core, sessionId) ?? [])],
    snapshots: snapshots.map(({ seq }) => seq),
    prunedTo: prunedTo(snapshots),
    restores: [] as [number, number][],
    gaps: [] as number[],
    hasBase: base !== undefined,
  }
  for await (const page of scanAll(core, keys.checkpoints(sessionId)))
    for (const [, json] of page) facts.named.push((JSON.parse(json) as CheckpointRecord).seq)
  for await (const page of redoBehind(core, sessionId, facts.prunedTo)) {
    for (const { seq, body } of page) {
      const redo = body[5]
      if (typeof redo === 'string') facts.gaps.push(seq)
      else if (redo?.[0]?.[0] === 'R') facts.restores.push([seq, redo[0][1]])
    }
  }
  return facts
}

/**
 * Stores the snapshots that a session needs to do without older redo, and without the session that it was forked
 * from. Nothing is taken away yet.
 */
export async function prepareHistory(
  core: Core,
  session: SessionRecord,
  { keepRedo }: { readonly keepRedo: boolean },
): Promise<SettledHistory> {
  const facts = await factsOf(core, session)
  const plan = planHistory(facts, { keepRedo, spacing: limits.eventsPerSnapshot })
  for (const seq of plan.write) await storeState(core, session.id, seq)
  return { sessionId: session.id, plan, prunedTo: facts.prunedTo }
}

/** Stores the state after an event as a snapshot; 0 is the one that the session started from. */
export async function storeState(core: Core, sessionId: string, seq: number): Promise<void> {
  const told = core.writes.begin()
  try {
    const { at, chain, root } = await stateAt(core, sessionId, seq)
    const snapshot: SnapshotRecord = { seq, at, chain, root: await core.roots.save(root) }
    await core.store.commit({ put: [[keys.snapshot(sessionId, seq), snapshot]] })
  } finally {
    told()
  }
}

/**
 * Takes away the redo that nothing needs any more, and snapshots that nothing needs; gives how many events and
 * snapshots that were, and their bytes. What is interrupted is done by the next call.
 */
export async function pruneHistory(
  core: Core,
  { sessionId, plan, prunedTo: before }: SettledHistory,
): Promise<{ events: number; snapshots: number; bytes: number }> {
  let events = 0
  let bytes = 0
  const commit = async (records: StoreCommit): Promise<void> => {
    await core.store.commit(records)
  }
  if (plan.pruneTo > before) {
    for await (const page of redoBehind(core, sessionId, before, plan.pruneTo)) {
      const replaceEvents: NewStoredEvent[] = []
      for (const { seq, body } of page) {
        const redo = body[5]
        if (typeof redo === 'string' || redo === undefined) continue
        const size = JSON.stringify(redo).length
        // What is shorter than its hash names no content.
        if (size <= redoHashLength) continue
        const pruned = [...body.slice(0, 5), redoHash(redo)]
        replaceEvents.push({ sessionId, seq, body: pruned })
        bytes += size - redoHashLength
      }
      events += replaceEvents.length
      if (replaceEvents.length > 0) await commit({ replaceEvents })
    }
    const key = keys.snapshot(sessionId, plan.pruneTo)
    const first = await core.store.get(key)
    if (first !== undefined)
      await commit({ put: [[key, { ...(JSON.parse(first) as SnapshotRecord), pruned: true }]] })
  }
  const del = plan.drop.map((seq) => keys.snapshot(sessionId, seq))
  for (let from = 0; from < del.length; from += limits.recordsPerCommit)
    await commit({ del: del.slice(from, from + limits.recordsPerCommit) })
  return { events, snapshots: del.length, bytes }
}
