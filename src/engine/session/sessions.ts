import type { BranchTips } from '../records/branch-tip.js'
import { itemAt, present } from '../base/present.js'
import { formatTime } from '../base/environment.js'
import { limits } from '../base/limits.js'
import { invalid } from '../base/errors.js'
import { parseFlag, parseStringMap, type StringMap } from '../base/input.js'
import { containsJson, noMetadata, parseJsonObject, type JsonObject } from '../base/json-object.js'
import { parseFilter } from '../base/tag-filter.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../base/paging.js'
import { Shape } from '../base/shape.js'
import { nextTurn, TimeSlice } from '../base/cooperative.js'
import { keys, prefixEnd } from '../storage/keys.js'
import { getSyncOrAsync } from '../storage/sync-or-async.js'
import type { StoreCommit } from '../storage/store.js'
import type { SnapshotRecord } from '../records/snapshot.js'
import type { EncodedNode } from '../tree/encoded.js'
import type { Dir } from '../tree/node.js'
import { Tree } from '../tree/tree.js'
import { lastActivities } from './table/activity.js'
import { branchTipsOf, noTips, tipsForFork } from './branch-tips.js'
import { chainStart } from './history/chain.js'
import { findCheckpoint, pin } from './checkpoints.js'
import { sessionNotFound, type Core } from './core.js'
import { eventTypes } from '../records/event.js'
import { CheckpointIndex, LiveSession, type ForkOrigin } from './table/live.js'
import type { Action } from '../operations/index.js'
import type { Permissions } from './access/permissions.js'
import type { TagSearch } from './table/tag-index.js'
import { isExpired } from './table/unused.js'
import { eventIdOf } from './history/event-ids.js'
import { baselineAfter } from './history/lineage.js'
import { openSession } from './history/replay.js'
import { needsSnapshot } from './history/snapshot.js'
import { sessionKind, SessionStatus, type SessionRecord } from '../records/session.js'
import type { Baseline } from '../records/baseline.js'
import {
  namesUnkeptState,
  newestState,
  positionedState,
  refersToHistory,
  stateNameShape,
  type StateName,
} from './states.js'
import { finalState, whenStored } from './sharing/when-stored.js'
import { Overtaken } from './sharing/shared-session.js'
import { acknowledged, eventTime, readAgain, record, type NewEvent } from './mutation-queue.js'

/** The public facts about a session. */
export interface SessionInfo {
  /** The id of the session. */
  readonly id: string
  /**
   * Hex digest of the session's base. A fork has the digest of its parent. '' for a handle that may not read
   * files.
   */
  readonly baseFingerprint: string
  /**
   * `ACTIVE`, `PENDING_APPROVAL` while an approval is pending, or `CONFLICT` after a commit failed with
   * BRANCH_MOVED.
   */
  readonly status: SessionStatus
  /** Tags by their keys. They never change after the creation. */
  readonly tags: StringMap
  /** The metadata that `fork` set, frozen; `{}` for other sessions. Forks do not inherit it. */
  readonly metadata: JsonObject
  /** The state that it was forked from. Absent for a session that is no fork, or if the caller may not read lineage. */
  readonly parent?: SessionParent
  /** The time of its creation: RFC 3339, UTC, milliseconds. */
  readonly createdAt: string
  /**
   * The time of the last change, or of a later read while the session is in memory: RFC 3339, UTC,
   * milliseconds.
   */
  readonly lastActivityAt: string
  /** The rights of the caller on this session. */
  readonly capabilities: {
    /** Whether the caller may commit. */
    readonly commit: boolean
    /** Whether the caller may request approvals. */
    readonly approvals: boolean
    /** Whether the caller may add annotations. */
    readonly annotations: boolean
  }
}

/** The state that a fork started from. The parent may have been deleted. */
export interface SessionParent {
  /** The id of the parent. */
  readonly sessionId: string
  /** The event of the parent after which the fork started. */
  readonly eventId: string
}

/** A page of sessions, filtered by a tag or by metadata. */
export interface SessionListRequest extends PageRequest {
  /** `key=value`: only sessions that have this tag. Absent: all sessions. */
  readonly filter?: string
  /**
   * Only sessions whose metadata contains these values. Nested objects may have more keys; arrays must have the same
   * length. Absent: all sessions.
   */
  readonly metadata?: JsonObject
}

/** A page of sessions. */
export interface SessionPage {
  /** In order of creation. */
  readonly sessions: SessionInfo[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** Creates a session on a baseline whose root is in memory. */
export async function createSession(
  core: Core,
  baseline: Baseline,
  root: Dir,
  tags: StringMap,
  ttlSeconds: number | undefined,
  checkLosses: () => void,
): Promise<LiveSession> {
  await core.store.counted?.()
  checkLosses()
  const session: SessionRecord = {
    id: core.ids.newId(),
    baseline,
    status: SessionStatus.ACTIVE,
    tags,
    createdAt: core.environment.wallClockMs(),
    ...(ttlSeconds !== undefined && { ttlSeconds }),
  }
  const { sourceId = '', revisionId = '' } = baseline.revision ?? {}
  return start(
    core,
    session,
    { baseline: root, root },
    {
      type: eventTypes.createSession,
      details: { sourceId, revisionId },
    },
  )
}

/** The request of `session.fork`. */
export interface ForkRequest {
  /** The label of the checkpoint to fork; absent or '' forks the current state. */
  readonly checkpointLabel?: string
  /** The state to fork: after an event, at a time, or of a checkpoint; instead of `checkpointLabel`. */
  readonly from?: StateName
  /** Tags to add to those of the parent. They replace tags with the same key. */
  readonly newTags?: StringMap
  /** An object of JSON, such as `{ turn: 3 }`: at most 4 KiB as JSON, and 8 levels. Listings return it. */
  readonly metadata?: JsonObject
}

/** Whether the request forks an earlier state. */
export function isOfEarlierState({ from }: ForkRequest): boolean {
  return from !== undefined && refersToHistory(from)
}

const forkShape = new Shape<ForkRequest>({
  checkpointLabel: true,
  from: true,
  newTags: true,
  metadata: true,
})

/**
 * Copies a request, so that later changes to the caller's objects have no effect.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the request has the wrong form.
 */
export function parseFork(request: ForkRequest): ForkRequest {
  const copy = forkShape.read(request)
  const { checkpointLabel = '', from } = copy
  if (from !== undefined && checkpointLabel !== '')
    throw invalid('from', 'cannot be combined with the label of a checkpoint: pass one of them')
  if (copy.newTags !== undefined) copy.newTags = parseStringMap('newTags', copy.newTags)
  if (copy.metadata !== undefined) copy.metadata = parseJsonObject('metadata', copy.metadata)
  copy.from = from === undefined ? labelledState(checkpointLabel) : stateNameShape.readPart(from, 'from')
  if (parseFlag('from.base', copy.from.base, false))
    throw invalid('from.base', 'must be false: fork a state of the session itself')
  return copy
}

function labelledState(checkpointLabel: string): StateName {
  return checkpointLabel === '' ? newestState : stateNameShape.read({ checkpointLabel })
}

/**
 * Creates a session from the parent's current state or from an earlier one. The cost is one small
 * record and one pointer copy, for a tree of any size. Afterwards, neither session sees the other's writes.
 */
export function forkSession(core: Core, parent: LiveSession, request: ForkRequest): Promise<LiveSession> {
  const revisits = request.from !== undefined && namesUnkeptState(request.from)
  const forked = revisits ? forkUnkept(core, parent, request) : forkNow(core, parent, request)
  // The parent may be deleted meanwhile. Its data is kept until the fork is stored. A fork of the newest state in memory
  // needs no data of a store.
  return isOfEarlierState(request) || isStored(core) ? core.pins.whileReading(forked) : forked
}

async function forkUnkept(core: Core, parent: LiveSession, request: ForkRequest): Promise<LiveSession> {
  using _ = core.pins.pin({ revisits: parent.id })
  const removed = core.pins.historyRemoved(parent.id)
  // Otherwise nothing is awaited, so the state at a time lacks the changes that are called after this.
  if (removed !== undefined) await removed
  return await forkNow(core, parent, request)
}

async function forkNow(core: Core, parent: LiveSession, request: ForkRequest): Promise<LiveSession> {
  const { from = newestState, newTags, metadata } = request
  // The fork includes all changes that were called before it.
  if (parent.tail !== undefined) await parent.tail
  const final = parent.shared && (await finalState(core.pins, parent, parent.shared))
  const tags = newTags === undefined ? parent.record.tags : mergeTags(parent.record.tags, newTags)
  const isEarlier = refersToHistory(from)
  let { baseline } = final?.record ?? parent.record
  let inheritedEvents = parent.unsnapshotted + forkEvents
  let checkpointId = ''
  const state = isEarlier
    ? await positionedState(core, parent, from)
    : (final ?? { root: parent.tree.freeze(), seq: parent.seq })
  const { root } = state
  const seq = present(state.seq, 'the event of the state')
  // Those of a later moment could have commits whose files the fork lacks.
  const knownTips = final?.tips ?? parent.branchTips
  // The fork of a newest state is in memory before anything is awaited, unless the tips must be read.
  const roots = isEarlier || knownTips === undefined ? [root] : noRoots
  // Not `using`, which compiles to calls that take as long as the rest of a fork.
  const pinned = core.pins.pin({ writesSince: 'now', roots })
  try {
    if (isEarlier) {
      if (from.checkpointId !== undefined || from.checkpointLabel !== undefined) {
        // The checkpoint may have been deleted meanwhile. Then nothing keeps its state, so this throws.
        checkpointId = (await findCheckpoint(core, parent, from)).id
        pin(core, parent, seq, root)
      }
      baseline = await baselineAfter(core, parent, seq)
      // The distance from the checkpoint to a snapshot is unknown, so all events of the parent count.
      inheritedEvents = parent.seq + forkEvents
    }
    const known = knownTips ?? (await branchTipsOf(core, parent))
    const tips = known.size === 0 ? known : tipsForFork(known, { seq, isEarlier })
    // The collection keeps the states of checkpoints.
    const isUnkept = isEarlier && checkpointId === '' && needsSnapshot(core)
    const snapshotRoot = isUnkept ? await core.roots.save(root) : undefined
    if (parent.discarded === 'failed') throw readAgain()
    const session: SessionRecord = {
      id: core.ids.newId(),
      baseline,
      base: [parent.id, seq],
      status: SessionStatus.ACTIVE,
      tags,
      ...(metadata !== undefined && { metadata }),
      createdAt: core.environment.wallClockMs(),
      ...(parent.record.ttlSeconds !== undefined && { ttlSeconds: parent.record.ttlSeconds }),
    }
    core.pins.referred(parent.id, seq)
    const details = { sourceSessionId: parent.id, checkpointId }
    const event = { type: eventTypes.forkSession, details }
    const baselineRoot =
      baseline === parent.record.baseline ? parent.baseline : core.roots.load(baseline.root)
    const { origin } = parent
    const states = { baseline: baselineRoot, root, origin, inheritedEvents, tips, snapshotRoot }
    return await start(core, session, states, event)
  } finally {
    pinned[Symbol.dispose]()
  }
}

const noRoots: readonly Dir[] = []

/** The cost of each ancestor that must be read when a fork is opened, as a number of events. */
export const forkEvents = 8

/** A session in memory, and its commit. */
export interface StartedSession {
  readonly live: LiveSession
  readonly stored: Promise<void>
}

/** The state that a session starts from. */
interface StartingState {
  readonly baseline: Dir
  readonly root: Dir
  /** That of the parent. */
  readonly origin?: ForkOrigin | undefined
  readonly inheritedEvents?: number
  readonly tips?: BranchTips
  /** The root, stored for a snapshot. */
  readonly snapshotRoot?: EncodedNode | undefined
}

/** The event that creates a session. */
type StartingEvent = Pick<NewEvent, 'type' | 'details'>

async function start(
  core: Core,
  session: SessionRecord,
  state: StartingState,
  event: StartingEvent,
): Promise<LiveSession> {
  const { live, stored } = begin(core, session, state, event)
  await stored
  // A fast loop of forks would otherwise create sessions faster than a collection processes them.
  if (core.table.isCollecting) await new TimeSlice(core.environment).next()
  return live
}

/** Creates a session in memory, and starts its commit. */
export function begin(
  core: Core,
  session: SessionRecord,
  { baseline, root, origin, inheritedEvents = 0, tips = noTips, snapshotRoot }: StartingState,
  event: StartingEvent,
): StartedSession {
  core.fence.check()
  const live = new LiveSession(core.tenantKey, session, baseline, new Tree(root, core.loader), {
    seq: 0,
    at: session.createdAt,
    chain: chainStart,
    snapshotSeq: 0,
    inheritedEvents,
  })
  live.checkpoints = new CheckpointIndex()
  live.lineage = []
  live.branchTips = tips
  // A merge needs this state later. A durable store can read it again.
  if (session.base !== undefined && !isStored(core))
    live.origin = { base: session.base, root, before: origin }
  core.sharing?.enter(live, '', core.environment.monotonicMs())
  core.table.residency.enter(live)
  const put: [string, object][] = [[keys.session(core.tenantKey, live.id), session]]
  for (const [branch, tip] of live.branchTips) put.push([keys.branchTip(live.id, branch), tip])
  if (snapshotRoot !== undefined) {
    const snapshot: SnapshotRecord = { seq: 0, at: session.createdAt, chain: chainStart, root: snapshotRoot }
    put.push([keys.snapshot(live.id, 0), snapshot])
  }
  return { live, stored: record(core, live, { redo: [], put, ...event }) }
}

/** Whether the store has the history, so that it can be read again. */
function isStored({ journal }: Core): boolean {
  return journal.kept(() => true) === true
}

function mergeTags(kept: StringMap, added: StringMap): StringMap {
  return parseStringMap('newTags', Object.assign(Object.create(null) as Record<string, string>, kept, added))
}

export function describeSession(
  { record: session, lastActivityAt }: { readonly record: SessionRecord; readonly lastActivityAt: number },
  permissions: Permissions,
): SessionInfo {
  const may = (action: Action): boolean => permissions.allows(action, { sessionId: session.id })
  return {
    id: session.id,
    baseFingerprint: permissions.has('files.read') ? session.baseline.fingerprint : '',
    status: session.status,
    tags: { ...session.tags },
    metadata: session.metadata ?? noMetadata,
    ...(session.base !== undefined && may('getLineage') && { parent: parentOf(session.base) }),
    createdAt: formatTime(session.createdAt),
    lastActivityAt: formatTime(lastActivityAt),
    capabilities: {
      commit: may('commit'),
      approvals: may('requestApproval'),
      annotations: may('addAnnotation'),
    },
  }
}

function parentOf([sessionId, seq]: readonly [string, number]): SessionParent {
  return { sessionId, eventId: eventIdOf(sessionId, seq) }
}

const sessionListShape = new Shape<SessionListRequest>({ filter: true, metadata: true, ...pageNames })

/** Copies a request. The filter and the page are checked later. */
export function parseSessionList(request: SessionListRequest): SessionListRequest {
  const copy = sessionListShape.read(request)
  if (copy.metadata !== undefined) copy.metadata = parseJsonObject('metadata', copy.metadata)
  return copy
}

/** Lists stored sessions in order of creation, in pages. */
export async function listSessions(
  core: Core,
  permissions: Permissions,
  { filter, metadata, pageSize: size, pageToken }: SessionListRequest,
): Promise<SessionPage> {
  const filtered = parseFilter(filter)
  const pageSize = parsePageSize(size)
  let after = parsePageToken('sessions', pageToken)
  const sessions: SessionInfo[] = []
  let bytes = 0
  for (let isFirst = true; ; isFirst = false) {
    // Many tenants have no more records than these. They need no index.
    const isShort = filtered !== undefined && isFirst
    const most = Math.min(pageSize, limits.pageSizeDefault)
    const scanned = isShort ? limits.recordsPerScan : Math.max(most, limits.recordsPerScan)
    const count = Math.min(pageSize - sessions.length, limits.recordsPerScan)
    const search = { tag: filter ?? '', after: after ?? '', count, mayRead: !isFirst }
    const tagged = filtered && (await taggedRecords(core, search))
    const found = tagged?.records ?? (await recordsAfter(core, after, scanned))
    const shown: SessionRecord[] = []
    for (const [id, json] of found) {
      after = id
      if (json === undefined || filtered?.mayMatch(json) === false) continue
      const session = sessionKind.parse(json)
      if (
        session.deletedAt !== undefined ||
        core.table.deleting.has(session.id) ||
        filtered?.matches(session.tags) === false ||
        (metadata !== undefined && !containsJson(session.metadata ?? noMetadata, metadata))
      )
        continue
      shown.push(session)
      bytes += json.length
      if (sessions.length + shown.length === pageSize || bytes >= limits.pageBytes) break
    }
    const isAll = tagged?.isAll ?? found.length < scanned
    const isLast = isAll && (found.length === 0 || itemAt(found, -1)[0] === after)
    const times = await lastActivities(core, shown)
    for (const [index, record] of shown.entries()) {
      const session = { record, lastActivityAt: itemAt(times, index) }
      if (!isExpired(core, session)) sessions.push(describeSession(session, permissions))
    }
    // A page of large sessions ends early, but not before its first session.
    if (sessions.length === 0) bytes = 0
    if (sessions.length === pageSize || bytes >= limits.pageBytes)
      return { sessions, nextPageToken: encodePageToken('sessions', present(after, 'the last session')) }
    if (isLast) return { sessions, nextPageToken: '' }
  }
}

type FoundSession = readonly [sessionId: string, json: string | undefined]

async function recordsAfter(
  { store, tenantKey }: Core,
  after: string | undefined,
  limit: number,
): Promise<readonly FoundSession[]> {
  const prefix = keys.sessions(tenantKey)
  const gte = after === undefined ? prefix : `${prefix}${after}\0`
  const found = await store.scan({ gte, lt: prefixEnd(prefix), limit })
  return found.map(([key, json]) => [keys.sessionIdOf(key), json])
}

/** The next sessions that may have a tag. Undefined if no index knows them. */
async function taggedRecords(
  core: Core,
  search: TagSearch,
): Promise<{ readonly records: readonly FoundSession[]; readonly isAll: boolean } | undefined> {
  const ids = await core.tags?.idsAfter(core, search)
  if (ids === undefined) return undefined
  const read = async (id: string): Promise<FoundSession> => [
    id,
    await getSyncOrAsync(core.store, keys.session(core.tenantKey, id)),
  ]
  return { records: await Promise.all(ids.map(read)), isAll: ids.length < search.count }
}

export interface DeletionOptions {
  /** The number of this try. */
  readonly runs?: number
  /** Keeps a session that is not expired, because it was used since the caller looked. */
  readonly onlyExpired?: boolean
}

/**
 * Deletes a session. It is hidden immediately, and its id is unknown from then on. Forks of it stay intact: the data that
 * they depend on is kept until a collection has made them independent. Returns whether the session was deleted.
 */
export async function deleteSession(
  core: Core,
  sessionId: string,
  options: DeletionOptions = {},
): Promise<boolean> {
  const { runs = 1, onlyExpired = false } = options
  const live = core.table.atHand(core.tenantKey, sessionId) ?? (await openSession(core, sessionId))
  // Changes that were called before the deletion are carried out first.
  if (live.tail !== undefined) await live.tail
  if (live.shared !== undefined) await whenStored(live)
  // Meanwhile, the session may have been deleted, or dropped from memory so that it must be read again.
  if (live.discarded !== undefined) return deleteSession(core, sessionId, options)
  if (onlyExpired && !isExpired(core, live)) return false
  core.fence.check()
  const { followers } = live
  let deletion = deletionOf(core, live)
  if (live.shared !== undefined) deletion = { ...deletion, heads: [live.shared.move()] }
  core.table.discard(live, 'deleted')
  core.table.deleting.add(sessionId)
  try {
    await acknowledged(core, live, core.store.commit(deletion))
  } catch (error) {
    // The session still exists. Like all others, it must be read again.
    live.discarded = 'failed'
    if (live.fileReferences !== undefined) core.table.dropped.set(sessionId, live)
    if (error instanceof Overtaken && runs < limits.sharedChangeRuns) {
      core.table.deleting.delete(sessionId)
      return deleteSession(core, sessionId, { ...options, runs: runs + 1 })
    }
    throw error
  } finally {
    core.table.deleting.delete(sessionId)
  }
  core.table.endLongUse(sessionId, sessionNotFound(sessionId))
  if (core.store.forget === undefined) return true
  // Let followers read to the end of the session first.
  if (followers !== undefined) await nextTurn()
  core.store.forget(sessionId)
  return true
}

function deletionOf(core: Core, live: LiveSession): StoreCommit {
  const at = eventTime(core, live)
  const key = keys.session(core.tenantKey, live.id)
  // The time of the creation would mark an import that is not complete. See `BundleImport`.
  const deletedAt = at === live.record.createdAt ? at + 1 : at
  // The record stays, because usage counts deleted sessions too.
  const record: SessionRecord = { ...live.record, deletedAt }
  const event = [at, eventTypes.deleteSession, {}, core.principal] as const
  return core.journal.deletion(live, { key, record, event })
}
