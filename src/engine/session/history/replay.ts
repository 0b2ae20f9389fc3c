import { itemAt, onlyItem, present } from '../../base/present.js'
import { assert, EngineError, eventMissing } from '../../base/errors.js'
import { isId } from '../../base/ids.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { nextTurn, TimeSlice } from '../../base/cooperative.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import { getSyncOrAsync } from '../../storage/sync-or-async.js'
import type { StoredEvent } from '../../storage/store.js'
import type { Dir } from '../../tree/node.js'
import { PinnedRoots } from '../../tree/pins.js'
import { Tree } from '../../tree/tree.js'
import { apply } from '../apply.js'
import { sessionNotFound, type Core } from '../core.js'
import { storedRead } from '../table/activity.js'
import { latestUse } from '../table/unused.js'
import { chainStart } from './chain.js'
import { parseTip } from '../branch-tips.js'
import type { BranchTips } from '../../records/branch-tip.js'
import { stateNotKept } from './event-ids.js'
import { eventTypes, type EventBody, type Redo } from '../../records/event.js'
import { takeOverReferences } from '../file-references.js'
import { evictWhenDue } from '../table/eviction.js'
import type { SharedSession } from '../sharing/shared-session.js'
import { LiveSession } from '../table/live.js'
import { snapshotKind, type SnapshotRecord } from '../../records/snapshot.js'
import { sessionKind, startOf, type SessionRecord } from '../../records/session.js'

/** Returns the session from memory, or loads it. Concurrent callers share one load. */
export async function openSession(core: Core, sessionId: string): Promise<LiveSession> {
  const known = core.table.atHand(core.tenantKey, sessionId)
  if (known !== undefined) return known
  if (!isId(sessionId) || core.table.deleting.has(sessionId)) throw sessionNotFound(sessionId)
  const { loading } = core.table
  const key = core.tenantKey + sessionId
  const shared = loading.get(key)
  if (shared !== undefined) return shared
  const load = core.pins.whileReading(loadSession(core, sessionId)).finally(() => loading.delete(key))
  loading.set(key, load)
  return load
}

async function loadSession(core: Core, sessionId: string): Promise<LiveSession> {
  // Data that was read while a commit failed or the store recovered may differ from the store's, so it is
  // read again.
  for (;;) {
    const { epoch } = core.fence
    const live = await readSession(core, sessionId)
    if (epoch !== core.fence.epoch) continue
    core.table.dropped.delete(sessionId)
    core.table.residency.enter(live)
    evictWhenDue(core)
    return live
  }
}

async function readSession(core: Core, sessionId: string): Promise<LiveSession> {
  await core.table.draining.get(sessionId)
  const startedAt = core.sharing === undefined ? 0 : core.environment.monotonicMs()
  const { head, record, tips, seq } = await storedSession(core, sessionId)
  if (record === undefined || record.deletedAt !== undefined) throw sessionNotFound(sessionId)
  const baseline = core.roots.load(record.baseline.root)
  const state = await stateAt(core, sessionId, seq)
  using _ = core.pins.pin({ roots: [baseline, state.root] })
  const readAt = await storedRead(core, sessionId)
  const live = new LiveSession(core.tenantKey, record, baseline, new Tree(state.root, core.loader), {
    ...state,
    readAt,
  })
  // The stored time may be older. Then the next eviction or close stores this one.
  const usedAt = core.table.lastUses.get(sessionId)?.lastActivityAt ?? 0
  live.lastActivityAt = latestUse(core, record, [state.at, readAt, usedAt])
  live.branchTips = tips
  await core.store.counted?.()
  await core.onOpen?.(core, live)
  core.sharing?.enter(live, head, startedAt)
  const dropped = core.table.dropped.get(sessionId)
  if (dropped !== undefined) await whenLoaded(() => takeOverReferences(live, dropped))
  return live
}

/**
 * The record of a session, even of a deleted one, and the event up to which it holds. Other engines may change both, so a
 * shared store reads them, the tips, and the head for the next commit, at one moment. Without a shared store, the tips are
 * read later.
 */
export async function storedSession(
  core: Core,
  sessionId: string,
): Promise<{
  readonly head: string
  readonly record: SessionRecord | undefined
  readonly tips: BranchTips | undefined
  readonly seq: number
}> {
  const { shared } = core.store
  if (shared === undefined) {
    const record = await findSession(core, sessionId)
    return { head: '', record, tips: undefined, seq: Number.POSITIVE_INFINITY }
  }
  const gte = keys.branchTips(sessionId)
  const key = keys.session(core.tenantKey, sessionId)
  const { head = '', record, others, seq } = await shared.session(sessionId, { key, gte, lt: prefixEnd(gte) })
  return {
    head,
    record: record === undefined ? undefined : sessionKind.parse(record),
    tips: new Map(others.map((other) => parseTip(sessionId, other))),
    seq,
  }
}

/** The record of a session, even of a deleted one. */
export async function findSession(core: Core, sessionId: string): Promise<SessionRecord | undefined> {
  if (!isId(sessionId)) return undefined
  const key = keys.session(core.tenantKey, sessionId)
  const json = await getSyncOrAsync(core.store, key)
  return json === undefined ? undefined : sessionKind.parse(json)
}

/** The root after event `seq` of a session that is or was in memory. It comes from memory or from replay. */
export async function rootAt(core: Core, live: LiveSession, seq: number): Promise<Dir> {
  if (live.shared !== undefined)
    return storedRoot(live, live.shared, seq) ?? (await stateAt(core, live.id, seq)).root
  const pinned = live.pins?.get(seq)
  if (pinned !== undefined) return pinned
  if (live.seq === seq && (live.discarded ?? 'deleted') === 'deleted') return live.tree.freeze()
  return core.journal.remembered(core, live, seq) ?? (await stateAt(core, live.id, seq)).root
}

/**
 * Like {@link rootAt}, for a state that a caller named.
 *
 * @throws {EngineError} STATE_NOT_KEPT when its redo was collected, or was never stored.
 */
export async function namedRoot(core: Core, live: LiveSession, seq: number): Promise<Dir> {
  if (seq === 0 && live.record.base === undefined && (await lacksStart(core, live.id)))
    throw stateNotKept(live.id, seq, 'the bundle from which the session was imported does not have it')
  try {
    return await rootAt(core, live, seq)
  } catch (error) {
    if (!(error instanceof UnreachableState)) throw error
    throw stateNotKept(live.id, seq, 'its changes were collected, or are not part of an imported bundle', {
      cause: error,
    })
  }
}

/**
 * Whether a session was imported from the bundle of a fork or of a rebased session. Such a bundle has the base, but not the state
 * before the first event.
 */
async function lacksStart(core: Core, sessionId: string): Promise<boolean> {
  for await (const page of core.store.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY })) {
    for (const { body } of page) {
      const [, type, , , , redo] = body as unknown as EventBody
      // Imported events come first, and have the hashes of their redo. The redo of the first event is never collected.
      if (typeof redo !== 'string') return false
      if (type === eventTypes.forkSession || type === eventTypes.rebaseSession) return true
    }
  }
  return false
}

/**
 * The roots after some events, given in ascending order. Each event between the first and the last of them is
 * read at most once, except those before the target of a restore. Each root is passed to `keep` before any
 * await, so that `keep` can protect it from collection.
 */
export async function* rootsAt(
  core: Core,
  live: LiveSession,
  seqs: readonly number[],
  keep: (root: Dir) => void,
): AsyncGenerator<readonly [seq: number, root: Dir], void> {
  /** Roots for the targets of restores. The oldest ones are dropped first. */
  const known = new Map<number, Dir>()
  let last: { readonly seq: number; readonly root: Dir } | undefined
  for (const seq of seqs) {
    const root =
      live.pins?.get(seq) ??
      (last === undefined ? await rootAt(core, live, seq) : await advance(core, live, last, seq, known))
    last = { seq, root }
    keep(root)
    known.set(seq, root)
    const [oldest] = known.keys()
    if (oldest !== undefined && known.size > limits.bundleHeldStates) known.delete(oldest)
    yield [seq, root]
  }
}

/** The root after event `seq`, replayed from an earlier root or from a snapshot in between. */
function advance(...[core, ...rest]: Parameters<typeof replayFrom>): Promise<Dir> {
  return core.pins.whileReading(replayFrom(core, ...rest))
}

async function replayFrom(
  core: Core,
  live: LiveSession,
  from: { readonly seq: number; readonly root: Dir },
  seq: number,
  known: ReadonlyMap<number, Dir>,
): Promise<Dir> {
  await storedEvents(core, live.id)
  const snapshot = await newestSnapshot(core, live.id, seq)
  const isNewer = snapshot !== undefined && snapshot.seq > from.seq
  const root = isNewer ? core.roots.load(snapshot.root) : from.root
  const first = (isNewer ? snapshot.seq : from.seq) + 1
  using pinned = new PinnedRoots(core.pins)
  let tree = new Tree(pinned.add(root), core.loader)
  /** The last restore so far. It undoes earlier restores, whose targets may have been pruned. */
  let restored: { readonly target: number; readonly events: StoredEvent[] } | undefined
  let next = first
  for await (const page of core.store.events(live.id, { from: first, to: seq })) {
    checkSequence(page, next, live.id)
    next += page.length
    const at = page.findLastIndex((event) => restoreTarget(event) !== undefined)
    if (at >= 0)
      restored = {
        target: present(restoreTarget(itemAt(page, at)), 'the target of a restore'),
        events: page.slice(at + 1),
      }
    else if (restored === undefined) await replay(core, tree, page)
    else restored.events.push(...page)
  }
  if (next <= seq) throw eventMissing(live.id, next)
  if (restored !== undefined) {
    const { target, events } = restored
    tree = new Tree(pinned.add(known.get(target) ?? (await rootAt(core, live, target))), core.loader)
    await replay(core, tree, events)
  }
  return tree.freeze()
}

interface State {
  readonly root: Dir
  readonly seq: number
  readonly at: number
  /** The link of event `seq`. */
  readonly chain: string
  readonly snapshotSeq: number
  /** The number of replayed events of the sessions that it was forked from. */
  readonly inheritedEvents: number
}

/** The part of a session's history that makes up one of its states. */
interface History {
  readonly record: SessionRecord
  /** In order, without events that a later restore undid. */
  readonly events: readonly StoredEvent[]
  /** The snapshot that it starts from. If there is none, it starts where the session started. */
  readonly snapshot: SnapshotRecord | undefined
  readonly seq: number
  readonly at: number
  /** The link of event `seq`. */
  readonly chain: string
  readonly snapshotSeq: number
}

/**
 * The state after event `seq`. It is computed in two linear passes without recursion. The first pass goes
 * back from the wanted state to a snapshot, through the sessions that it was forked from. The second pass
 * applies the events forward. A tenant computes one state at a time, because the events may take much memory. A
 * collection has turns of its own.
 */
export function stateAt(
  core: Core,
  sessionId: string,
  seq: number,
  turns: string = core.tenantKey,
): Promise<State> {
  return core.pins.whileReading(readState(core, sessionId, seq, turns))
}

/** The turns of collections, so that tenants do not wait for the many states that a collection may need. */
export const collectionTurns = 'collection'

/** Like {@link stateAt}, for a state whose events are known to be stored. It waits for no change of the session. */
export function storedStateAt(core: Core, sessionId: string, seq: number): Promise<State> {
  return core.pins.whileReading(
    core.replays.run(core.tenantKey, async () => replayed(core, await readHistories(core, sessionId, seq))),
  )
}

async function readState(core: Core, sessionId: string, seq: number, turns: string): Promise<State> {
  const waited = new Set<string>()
  for (let id = sessionId; ;) {
    // Not during the turn, because the change that this waits for may need a turn too.
    await storedEvents(core, id)
    waited.add(id)
    const found = await core.replays.run(turns, async () => {
      const histories = await readHistories(core, sessionId, seq, waited)
      return typeof histories === 'string' ? histories : replayed(core, histories)
    })
    if (typeof found !== 'string') return found
    id = found
  }
}

/** The histories that lead to a state, the newest first, and the tree that the oldest one starts from. */
interface Histories {
  readonly histories: readonly History[]
  readonly start: Dir
}

function readHistories(core: Core, sessionId: string, seq: number): Promise<Histories>
/** With `waited`: the id of a session whose changes must be stored first, unless it is one of these. */
function readHistories(
  core: Core,
  sessionId: string,
  seq: number,
  waited: ReadonlySet<string>,
): Promise<Histories | string>
async function readHistories(
  core: Core,
  sessionId: string,
  seq: number,
  waited?: ReadonlySet<string>,
): Promise<Histories | string> {
  const histories: History[] = []
  const slice = new TimeSlice(core.environment)
  for (let at: readonly [string, number] = [sessionId, seq]; ;) {
    const [id] = at
    if (waited?.has(id) === false && hasUnstored(core, id)) return id
    const history = await readHistory(core, ...at)
    histories.push(history)
    const { snapshot, record } = history
    if (snapshot !== undefined) return { histories, start: core.roots.load(snapshot.root) }
    if (record.base === undefined) return { histories, start: core.roots.load(startOf(record)) }
    at = record.base
    if (slice.over) await slice.next()
    const start = knownRoot(core, ...at)
    if (start !== undefined) return { histories, start }
  }
}

async function replayed(core: Core, { histories, start }: Histories): Promise<State> {
  // The session in memory that has this tree may change during the replay.
  using _ = core.pins.pin({ roots: [start] })
  const tree = new Tree(start, core.loader)
  for (const { events } of histories.toReversed()) await replay(core, tree, events)
  const { seq: reached, at, chain, snapshotSeq } = itemAt(histories, 0)
  const inheritedEvents = histories.slice(1).reduce((sum, { events }) => sum + events.length, 0)
  return { root: tree.freeze(), seq: reached, at, chain, snapshotSeq, inheritedEvents }
}

function knownRoot(core: Core, sessionId: string, seq: number): Dir | undefined {
  const live = core.table.live.get(sessionId)
  if (live?.shared !== undefined) return storedRoot(live, live.shared, seq)
  return live?.pins?.get(seq) ?? (live?.seq === seq ? live.tree.freeze() : undefined)
}

/** Another engine may store other events in place of those that are not stored yet. */
function storedRoot(live: LiveSession, { stored }: SharedSession, seq: number): Dir | undefined {
  if (seq > stored.seq) return undefined
  return live.pins?.get(seq) ?? (seq === stored.seq ? stored.root : undefined)
}

async function replay(core: Core, tree: Tree, events: readonly StoredEvent[]): Promise<void> {
  let effects = 0
  for (const event of events) {
    const [at, , , , , redo] = event.body as unknown as EventBody
    if (typeof redo === 'string') throw unreachable(event)
    if (redo !== undefined && redo.length > limits.effectsPerTurn) await applyInTurns(core, tree, redo, at)
    else if (redo !== undefined) await applyEffects(core, tree, redo, at)
    effects += 1 + (redo?.length ?? 0)
    if (effects < limits.effectsPerTurn) continue
    effects = 0
    await nextTurn()
  }
}

/** Applies the effects of an event to a tree that only the caller uses. Gives the event loop a turn after each part. */
export async function applyInTurns(core: Core, tree: Tree, redo: readonly Redo[], at: number): Promise<void> {
  for (let from = 0; from < redo.length; from += limits.effectsPerTurn) {
    if (from > 0) await nextTurn()
    await applyEffects(core, tree, redo.slice(from, from + limits.effectsPerTurn), at)
  }
}

function applyEffects(core: Core, tree: Tree, redo: readonly Redo[], at: number): Promise<void> | undefined {
  const before = core.store.capabilities.syncReads ? undefined : tree.freeze()
  const step = (): void => {
    if (before !== undefined) tree.reset(before)
    for (const effect of redo) if (effect[0] !== 'R') apply(tree, effect, at, core)
  }
  if (before !== undefined) return whenLoaded(step)
  step()
  return undefined
}

/**
 * Walks back from `seq`. Events between a restore and its target do not matter, so the walk continues at the
 * target. Each event is read at most once.
 */
async function readHistory(core: Core, sessionId: string, seq: number): Promise<History> {
  const record = await findSession(core, sessionId)
  if (record === undefined || record.collected === true) throw parentGone(sessionId)
  const newestFirst: (readonly StoredEvent[])[] = []
  let end: Pick<State, 'seq' | 'at' | 'chain' | 'snapshotSeq'> | undefined
  for (let wanted = seq; ;) {
    const snapshot = await newestSnapshot(core, sessionId, wanted)
    const from = (snapshot?.seq ?? 0) + 1
    const window: StoredEvent[] = []
    for await (const page of core.store.events(sessionId, { from, to: wanted })) window.push(...page)
    checkSequence(window, from, sessionId)
    const last = window.at(-1)
    const reached = last?.seq ?? snapshot?.seq ?? 0
    if (Number.isFinite(wanted) && reached < wanted) throw await missingAfter(core, sessionId, reached)
    end ??= {
      seq: reached,
      at: last === undefined ? (snapshot?.at ?? record.createdAt) : (last.body as unknown as EventBody)[0],
      chain: last === undefined ? (snapshot?.chain ?? chainStart) : (last.body as unknown as EventBody)[4]!,
      snapshotSeq: snapshot?.seq ?? 0,
    }
    let position = last === undefined ? 0 : window.length
    for (;;) {
      let restore = position - 1
      while (restore >= 0 && restoreTarget(itemAt(window, restore)) === undefined) restore--
      newestFirst.push(window.slice(restore + 1, position))
      if (restore < 0) return { record, events: newestFirst.toReversed().flat(), snapshot, ...end }
      const event = itemAt(window, restore)
      const target = present(restoreTarget(event), 'the target of a restore')
      assert(target < event.seq, 'a restore leads to an earlier event')
      if (target < from - 1) {
        wanted = target
        break
      }
      position = target - from + 1
    }
  }
}

/** Waits until queued events are stored. Only then can replay read them. */
async function storedEvents(core: Core, sessionId: string): Promise<void> {
  await core.table.live.get(sessionId)?.acknowledged.catch(() => undefined)
  await core.table.draining.get(sessionId)
}

/** Whether {@link storedEvents} has something to wait for. */
function hasUnstored(core: Core, sessionId: string): boolean {
  const live = core.table.live.get(sessionId)
  if (live !== undefined && (live.pending > 0 || live.shared?.isBusy === true)) return true
  return core.table.draining.has(sessionId)
}

function restoreTarget(event: StoredEvent): number | undefined {
  const redo = (event.body as unknown as EventBody)[5]
  if (redo === undefined || typeof redo === 'string') return undefined
  const only = onlyItem(redo)
  return only?.[0] === 'R' ? only[1] : undefined
}

/** A state whose redo is not stored, with no snapshot after the gap. */
export class UnreachableState extends EngineError {
  constructor(message: string, details: Readonly<Record<string, string>>) {
    super('DATA_LOSS', message, details)
  }
}

function parentGone(sessionId: string): EngineError {
  return new UnreachableState(
    `the stored history of the session ${sessionId}, which a fork needs, is missing`,
    { sessionId },
  )
}

/** The error for the end of a log after event `seq`. A collection may have deleted the session during the read. */
async function missingAfter(core: Core, sessionId: string, seq: number): Promise<EngineError> {
  const record = await findSession(core, sessionId)
  const isGone = record === undefined || record.collected === true
  return isGone ? parentGone(sessionId) : eventMissing(sessionId, seq + 1)
}

function unreachable({ sessionId, seq }: StoredEvent): EngineError {
  return new UnreachableState(
    `session ${sessionId}: the changes of event ${seq} and a snapshot after it are missing`,
    { sessionId, seq: String(seq) },
  )
}

async function newestSnapshot(
  core: Core,
  sessionId: string,
  seq: number,
): Promise<SnapshotRecord | undefined> {
  const prefix = keys.snapshots(sessionId)
  const lt = Number.isFinite(seq) ? keys.snapshot(sessionId, seq + 1) : prefixEnd(prefix)
  const [found] = await core.store.scan({ gte: prefix, lt, limit: 1, reverse: true })
  return found === undefined ? undefined : snapshotKind.parse(found[1])
}

function checkSequence(events: readonly StoredEvent[], from: number, sessionId: string): void {
  for (const [index, event] of events.entries()) {
    if (event.seq !== from + index) throw eventMissing(sessionId, from + index)
  }
}
