import { present } from '../base/present.js'
import { engineClosed, EngineError, anotherEngine } from '../base/errors.js'
import { Fault, whenLoaded } from '../base/fault.js'
import { limits } from '../base/limits.js'
import type { BlobRef } from '../cas/blob.js'
import { keys } from '../storage/keys.js'
import { storedAtOnce, type StoreCommit } from '../storage/store.js'
import type { EncodedNode } from '../tree/encoded.js'
import type { Dir } from '../tree/node.js'
import { apply } from './apply.js'
import { inBackground, sessionNotFound, type Core } from './core.js'
import type { EventType, Redo } from '../records/event.js'
import { notifyFollowers, type CommittedEvent } from './history/feed.js'
import { afterEvent, beforeEffect } from './file-references.js'
import { touch } from './table/activity.js'
import { evictWhenDue } from './table/eviction.js'
import { addStep, restoreStep } from './history/lineage.js'
import type { LineageStep } from './history/lineage-step.js'
import { nextEventTime, withSetBack } from './history/event-times.js'
import { noteUse } from './table/unused.js'
import { canTake, type PreparedEffects } from './prepared-effects.js'
import { catchUp, changeShared } from './sharing/shared-changes.js'
import { Overtaken, type StoredState } from './sharing/shared-session.js'
import type { LiveSession } from './table/live.js'
import type { SessionRecord } from '../records/session.js'
import { admitChange, bytesWritten, countChange } from './usage/session-bytes.js'
import { writeSnapshot } from './history/snapshot.js'

/**
 * Runs a mutation. Synchronously, the operation makes its plan from the newest state, applies it and queues
 * its commit. The returned promise settles with the commit.
 *
 * If the operation needs data that is not loaded, it runs again after the load, so it must have no effect
 * before its last fault. Mutations of a session take effect in call order: while one waits, later ones queue
 * up. Reads do not queue up.
 */
export function mutate<T>(core: Core, live: LiveSession, operation: () => Promise<T>): Promise<T> {
  if (live.tail !== undefined) return enqueue(live, () => attempt(core, live, operation))
  try {
    return attempt(core, live, operation)
  } catch (thrown) {
    if (thrown instanceof Fault) return enqueue(live, () => attempt(core, live, operation), thrown)
    return Promise.reject(thrown)
  }
}

/**
 * Reads the session in call order, after all mutations that were called before.
 *
 * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted.
 */
export function lookInOrder<T>(live: LiveSession, look: () => T): Promise<T> {
  const run = (): Promise<T> => Promise.resolve(lookNow(live, look))
  if (live.tail !== undefined) return enqueue(live, run)
  try {
    return run()
  } catch (thrown) {
    if (thrown instanceof Fault) return enqueue(live, run, thrown)
    return Promise.reject(thrown)
  }
}

function lookNow<T>(live: LiveSession, look: () => T): T {
  if (live.discarded === 'deleted') throw sessionNotFound(live.id)
  return look()
}

/**
 * Like {@link mutate}, but runs synchronously, or throws WOULD_BLOCK. The returned promise is that of the
 * commit.
 *
 * @throws {EngineError} WOULD_BLOCK when earlier mutations are waiting, or when the operation needs data that
 * this store cannot read synchronously.
 */
export function mutateSync<T>(core: Core, live: LiveSession, operation: () => Promise<T>): Promise<T> {
  if (live.tail !== undefined) throw wouldBlock('earlier operations of the session are not finished')
  return loadedNow(() => attempt(core, live, operation))
}

/**
 * Returns the result of `look`, without waiting.
 *
 * @throws {EngineError} WOULD_BLOCK when `look` needs data that is not loaded and that this store cannot read
 * synchronously.
 */
export function loadedNow<T>(look: () => T): T {
  try {
    return look()
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown
    throw wouldBlock('the data is not in memory, and this storage cannot read it synchronously')
  }
}

export function wouldBlock(message: string): EngineError {
  return new EngineError('WOULD_BLOCK', `${message}; use the promise form`)
}

function enqueue<T>(live: LiveSession, run: () => Promise<T>, fault?: Fault): Promise<T> {
  const before = live.tail
  const turn = async (): Promise<{ committed: Promise<T> }> => {
    await before
    // The promise of the commit is wrapped in an object, so that the next operation in the queue waits for
    // the effect and not for the store.
    return whenLoaded(() => ({ committed: run() }), fault)
  }
  const started = turn()
  const tail = started
    .then(() => undefined)
    .catch(() => undefined)
    .then(() => {
      if (live.tail === tail) live.tail = undefined
    })
  live.tail = tail
  return started.then(({ committed }) => committed)
}

function attempt<T>(core: Core, live: LiveSession, operation: () => Promise<T>): Promise<T> {
  checkKept(live)
  live.revive?.()
  core.fence.check()
  if (live.shared !== undefined) return changeShared(live, () => withRollback(live, operation))
  if (core.store.capabilities.syncReads) return operation()
  return withRollback(live, operation)
}

/**
 * Refuses an operation on a session in memory that is no longer valid.
 *
 * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted.
 * @throws {EngineError} ENGINE_CLOSED when the engine was closed.
 * @throws {EngineError} STORE_FAILED when an earlier write failed.
 */
export function checkKept({ id, discarded }: LiveSession): void {
  if (discarded === 'deleted') throw sessionNotFound(id)
  if (discarded === 'closed') throw engineClosed()
  if (discarded !== undefined) throw readAgain()
}

/** The error STORE_FAILED for an operation whose session was dropped from memory before its turn. */
export function readAgain(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the operation was not applied, because an earlier write of the session failed; repeat it',
    { outcome: 'not-applied' },
  )
}

/** Restores the tree if `change` throws. */
export function withRollback<T>(live: LiveSession, change: () => T): T {
  const before = live.tree.freeze()
  try {
    return change()
  } catch (thrown) {
    live.tree.reset(before)
    throw thrown
  }
}

/** The time of the next event: see {@link nextEventTime}. */
export function eventTime(core: Core, live: Pick<LiveSession, 'lastEventAt'>): number {
  return nextEventTime(core.environment.wallClockMs(), live.lastEventAt)
}

export interface NewEvent {
  readonly type: EventType
  readonly details: object
  readonly redo: readonly Redo[]
  /** The redo of a large event, applied and encoded ahead. */
  readonly prepared?: PreparedEffects | undefined
  /**
   * The {@link eventTime} of the event, if a record of the same commit also contains it. By default, the time
   * of the commit.
   */
  readonly at?: number
  readonly blobs?: readonly BlobRef[]
  /** Heads of a source and a job that the same commit moves, on a shared store. */
  readonly heads?: StoreCommit['heads']
  /** Records that belong to the same commit. */
  readonly put?: StoreCommit['put']
  readonly del?: StoreCommit['del']
  /** The step in the session's ancestry, of a merge or rebase, or of its end. Another restore needs none. */
  readonly step?: Omit<LineageStep, 'seq'>
  /** The new record of the session. */
  readonly session?: SessionRecord | undefined
  /** The state that an effect `R` restores, unless a checkpoint pins it. */
  readonly root?: Dir
  /** The stored state after the event, for a snapshot in the same commit. */
  readonly snapshotRoot?: EncodedNode | undefined
}

/**
 * Waits until the current state is acknowledged, for a change that finds nothing to change. It has no event, so its use of
 * the session is noted here.
 */
export function unchanged(core: Core, live: LiveSession): Promise<void> {
  touch(core, live)
  return live.acknowledged
}

/**
 * Applies an event's redo and commits the event. Without an event, nothing changes: see {@link unchanged}.
 */
export function record(core: Core, live: LiveSession, event: NewEvent | undefined): Promise<void> {
  if (event === undefined) return unchanged(core, live)
  if (core.store.admit !== undefined) admitChange(core, live, event)
  const { prepared } = event
  const at = prepared?.at ?? event.at ?? eventTime(core, live)
  const before = event.redo[0]?.[0] === 'R' ? live.tree.freeze() : undefined
  // Followers compare this state with the next one. They pin it themselves once they receive the event.
  const pin =
    before !== undefined && live.followers !== undefined ? core.pins.pin({ roots: [before] }) : undefined
  try {
    if (prepared !== undefined && canTake(live)) live.tree.reset(prepared.after, prepared.madeBytes)
    else for (const redo of event.redo) applyLive(core, live, redo, at, event.root)
  } catch (thrown) {
    pin?.[Symbol.dispose]()
    // If a read fails halfway, no event explains the state of the tree. The session is then read again from
    // the store.
    if (!(thrown instanceof Fault)) core.table.discard(live, 'failed')
    throw thrown
  }
  const committed = commitEvent(core, live, event, at, before && { before, after: live.tree.freeze() })
  if (pin !== undefined) {
    const unpin = (): void => pin[Symbol.dispose]()
    committed.then(unpin, unpin)
  }
  return committed
}

export function applyLive(core: Core, live: LiveSession, redo: Redo, at: number, root?: Dir): void {
  beforeEffect(live, redo)
  if (redo[0] === 'R') live.tree.reset(present(root ?? live.pins?.get(redo[1]), 'the state to restore'))
  else apply(live.tree, redo, at, core)
}

/** Commits an event whose redo is already applied. */
export function commitEvent(
  core: Core,
  live: LiveSession,
  event: NewEvent,
  at: number,
  restored?: CommittedEvent['restored'],
): Promise<void> {
  const { type, redo, blobs, del } = event
  let { put } = event
  const details = core.marks === undefined ? event.details : { ...event.details, ...core.marks }
  let { session } = event
  afterEvent(live, redo, restored)
  const isSetBack = at < live.lastEventAt
  // The clock was ahead, perhaps during a read, and has been corrected. The recorded times are corrected too.
  const wasAhead = isSetBack || live.lastActivityAt - at > limits.clockHoldMs
  if (isSetBack) session = withSetBack(session ?? live.record, live.seq + 1, at)
  if (wasAhead) {
    live.lastActivityAt = at
    live.activityStoredAt = at
  }
  live.lastEventAt = at
  live.lastActivityAt = Math.max(at, live.lastActivityAt)
  live.activityStoredAt = Math.max(at, live.activityStoredAt)
  noteUse(core, live.record, live.lastActivityAt)
  if (core.store.admit !== undefined) countChange(core, live, redo)
  const seq = ++live.seq
  const step = event.step === undefined ? restoreStep(seq, redo) : { seq, ...event.step }
  if (step !== undefined) put = [...(put ?? []), addStep(live, step)]
  const body = core.journal.nextBody(live, [at, type, details, core.principal], redo, event.prepared?.encoded)
  const { snapshotRoot } = event
  if (snapshotRoot !== undefined)
    put = [...(put ?? []), [keys.snapshot(live.id, seq), { seq, at, chain: live.chain, root: snapshotRoot }]]
  const events = [{ sessionId: live.id, seq, body }]
  const commit: { -readonly [Part in keyof StoreCommit]: StoreCommit[Part] } = { events }
  if (session !== undefined) commit.put = [...(put ?? []), sessionEntry(core, live, session)]
  else if (put !== undefined) commit.put = put
  const read = wasAhead
    ? core.journal.kept((): [string, string] => [keys.lastRead(live.id), String(at)])
    : undefined
  if (read !== undefined) commit.put = [...(commit.put ?? []), read]
  if (del !== undefined) commit.del = del
  if (redo.length > 1) commit.effects = redo.length
  if (blobs !== undefined) {
    const stored = core.journal.blobs(core.store, blobs)
    if (stored !== undefined) commit.blobs = stored
  }
  const { shared } = live
  if (shared !== undefined) commit.heads = [shared.move(), ...(event.heads ?? [])]
  const after = shared && {
    root: live.tree.freeze(),
    seq,
    at,
    chain: live.chain,
    bytesWritten: bytesWritten(live),
  }
  live.acknowledged = acknowledged(core, live, core.store.commit(commit), blobs, after)
  if (live.followers !== undefined) {
    const committed: CommittedEvent = { seq, at, type, details, principal: core.principal, redo }
    const notify = (): void =>
      notifyFollowers(live, restored === undefined ? committed : { restored, ...committed })
    // If the commit fails, the session is discarded, and that informs the followers.
    live.acknowledged.then(notify, () => undefined)
  }
  return live.acknowledged
}

/** Replaces the record of a session. Returns the key and the record for the commit. */
function sessionEntry(core: Core, live: LiveSession, session: SessionRecord): [string, SessionRecord] {
  live.record = session
  return [keys.session(core.tenantKey, live.id), session]
}

/** Commits a session's record without an event. */
export function commitSession(core: Core, live: LiveSession, session: SessionRecord): Promise<void> {
  return commitRecords(core, live, { put: [sessionEntry(core, live, session)] })
}

/** Commits records, and the blobs that they refer to, without an event. The change is not in the history. */
export function commitRecords(
  core: Core,
  live: LiveSession,
  records: Pick<StoreCommit, 'put' | 'del'>,
  blobs: readonly BlobRef[] = [],
): Promise<void> {
  const stored = blobs.length === 0 ? undefined : core.journal.blobs(core.store, blobs)
  let commit: StoreCommit = stored === undefined ? records : { blobs: stored, ...records }
  if (live.shared !== undefined) commit = { heads: [live.shared.move()], ...commit }
  live.acknowledged = acknowledged(core, live, core.store.commit(commit), blobs)
  return live.acknowledged
}

/**
 * Waits for a commit. After a failure, all sessions are read again. `after` is the state with the commit, if other
 * engines may be first.
 *
 * @throws {EngineError} STORE_FAILED when the commit was not stored.
 */
export function acknowledged(
  core: Core,
  live: LiveSession,
  pending: Promise<boolean>,
  blobs?: readonly BlobRef[],
  after?: StoredState,
): Promise<void> {
  live.revive?.()
  // Memory is the only copy then, so there is nothing to drop, to snapshot or to evict.
  return pending === storedAtOnce ? done : whenStored(core, live, pending, blobs, after)
}

const done = Promise.resolve()

async function whenStored(
  core: Core,
  live: LiveSession,
  pending: Promise<boolean>,
  blobs?: readonly BlobRef[],
  after?: StoredState,
): Promise<void> {
  let stored: boolean
  const { shared } = live
  const change = shared?.planning
  if (shared !== undefined) shared.queued = pending
  if (change !== undefined) change.commits++
  live.pending++
  try {
    stored = await pending
  } catch (error) {
    // An earlier failure has already dropped all sessions.
    if (live.discarded !== 'failed') core.table.discardAll(core.log)
    throw error
  } finally {
    live.pending--
  }
  if (!stored && shared !== undefined) {
    if (live.discarded === undefined) {
      if (change !== undefined) change.isLost = true
      shared.isOvertaken = true
      catchUp(core, live).catch(() => undefined)
    } else if (change !== undefined) throw readAgain()
    throw new Overtaken(live.id)
  }
  if (after !== undefined) shared?.store(after)
  if (!stored) {
    core.table.discardAll(core.log)
    throw anotherEngine()
  }
  if (blobs !== undefined) for (const blob of blobs) core.content.stored(blob)
  if (core.table.residency.wantsSnapshot(live) && live.snapshotting === undefined)
    inBackground(core, writeSnapshot(core, live))
  evictWhenDue(core)
  // A writer that is faster than the storage of its tree waits here. Otherwise memory would have to hold the
  // whole tree.
  if (live.snapshotting !== undefined && core.table.residency.isOverdue(live)) await live.snapshotting
}
