import { checkSignal } from '../../base/abort.js'
import { DigestTable } from '../../base/digest-table.js'
import { engineClosed, EngineError, invalid } from '../../base/errors.js'
import { Shape } from '../../base/shape.js'
import { nextTurn } from '../../base/slices.js'
import type { Core } from '../../session/core.js'
import { lastActivities } from '../../session/activity.js'
import { isExpired } from '../../session/unused.js'
import { heldStates } from '../../session/held-states.js'
import { readingsEnded } from '../../session/history-reads.js'
import {
  prepareHistory,
  prunedTo,
  pruneHistory,
  redoBehind,
  scanAll,
  snapshotsOf,
  storeState,
  type SettledHistory,
} from '../../session/histories.js'
import { countSession } from '../../session/session-count.js'
import { countPast } from '../../session/past-sessions.js'
import { parseSession, type Baseline, type SessionRecord } from '../../session/records.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import { hashDigits } from '../../storage/metered-store.js'
import type { StoreCommit } from '../../storage/store.js'
import type { EncodedNode } from '../../tree/codec.js'
import type { InUseNode } from '../../tree/in-use.js'
import { Marker } from './collection-mark.js'

export interface CollectOptions {
  /**
   * true: what events did is kept, as far back as it is. By default it goes where no state before it can be named
   * any more; the events themselves stay.
   */
  readonly keepRedo?: boolean
  /** Ends it with the signal's reason; what was freed by then stays freed. */
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: CollectProgress) => void
}

export interface CollectProgress {
  /** Which it comes through in this order. */
  readonly stage: 'sessions' | 'mark' | 'sweep' | 'reclaim'
  /** Sessions, marked objects, or objects that were looked at; in `reclaim` 0. */
  readonly done: number
}

/** What a collection took away. */
export interface Collected {
  /** Of contents, tree nodes, records and redo; the store's files may shrink by more or less. */
  readonly freedBytes: number
  readonly deletedBlobs: number
  readonly deletedNodes: number
  /** Records that belonged to deleted sessions and sources, and snapshots. */
  readonly deletedRecords: number
  /** Sessions that were deleted before, and of which nothing is stored any more. */
  readonly deletedSessions: number
  /** Events of which what they did is not kept any more. */
  readonly prunedEvents: number
  readonly tookMs: number
}

type Counts = { -readonly [Name in Exclude<keyof Collected, 'tookMs'>]: number }

const nothing: Counts = {
  freedBytes: 0,
  deletedBlobs: 0,
  deletedNodes: 0,
  deletedRecords: 0,
  deletedSessions: 0,
  prunedEvents: 0,
}

/** What it works with. */
interface Run {
  readonly core: Core
  readonly keepRedo: boolean
  readonly signal: AbortSignal
  readonly report: (stage: CollectProgress['stage'], done: number) => void
  readonly counts: Counts
}

/** A session as it is stored. */
interface StoredSession {
  readonly tenantKey: string
  readonly record: SessionRecord
}

/** Objects that one commit deletes. */
const deletedAtOnce = 1000

/**
 * Frees what nothing leads to any more: pure marking, then deletion. It runs beside everything else, in slices; one
 * runs at a time, another waits for its turn.
 *
 * 1. States that can be named get snapshots, so that deleted sessions and older redo are needed by nobody; then these
 *    go.
 * 2. From here on it is noted what is written, and every tree in memory is a root. What all records and the redo of
 *    the events behind the first snapshot of each session lead to is marked.
 * 3. Nodes and blobs that are neither marked nor noted go, in commits: one that is written later is behind these in
 *    the store's queue, and one that was written before is noted. So an interruption leaves garbage, never a hole.
 */
export class Collection {
  readonly #closing = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  /** DATA_LOSS, with nothing deleted by it, where a stored state cannot be read whole. */
  collect(core: Core, options: CollectOptions): Promise<Collected> {
    const { keepRedo = false, onProgress } = options
    const signal =
      options.signal === undefined
        ? this.#closing.signal
        : AbortSignal.any([options.signal, this.#closing.signal])
    signal.throwIfAborted()
    const collected = this.#running.then(() => {
      signal.throwIfAborted()
      const report = (stage: CollectProgress['stage'], done: number): void => onProgress?.({ stage, done })
      return collectNow({ core, keepRedo, signal, report, counts: { ...nothing } })
    })
    this.#running = collected.catch(() => undefined)
    return collected
  }

  /** Does something while nothing is collected. */
  pausedFor<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const done = this.#running.then(() => work(this.#closing.signal))
    this.#running = done.catch(() => undefined)
    return done
  }

  /** Ends what runs, and waits until it has. */
  async close(): Promise<void> {
    this.#closing.abort(engineClosed())
    await this.#running
  }
}

const optionsShape = new Shape<CollectOptions>({ keepRedo: true, signal: true, onProgress: true })

export function parseCollect(options: CollectOptions): CollectOptions {
  const copy = optionsShape.read(options, 'options')
  const { keepRedo, signal, onProgress } = copy
  checkSignal(signal)
  if (keepRedo !== undefined && typeof keepRedo !== 'boolean') throw invalid('keepRedo', 'must be a boolean')
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalid('onProgress', 'must be a function')
  return copy
}

async function collectNow(run: Run): Promise<Collected> {
  const { core, counts } = run
  const start = core.environment.monotonicMs()
  // Elsewhere memory itself is collected, but for records.
  if (!core.store.capabilities.durable) {
    await deleteExpired(run)
    for (const session of (await deletedSessions(run)).values()) await deleteStored(run, session)
  } else {
    await settleSessions(run)
    await sweepUnmarked(run)
    await core.store.recounted?.()
    for (const live of core.live.values()) await countSession(asTenant(core, live.tenantKey), live)
    run.report('reclaim', 0)
    await core.store.reclaim?.({ signal: run.signal })
  }
  const tookMs = Math.max(0, core.environment.monotonicMs() - start)
  core.log('info', 'a collection ended', { ...counts, tookMs })
  return { ...counts, tookMs }
}

/** Resolves when reads see what was committed before. */
async function queued(core: Core): Promise<void> {
  await core.store.commit({})
}

async function* storedSessions(core: Core): AsyncGenerator<StoredSession, void> {
  for await (const page of scanAll(core, keys.allSessions()))
    for (const [key, json] of page) yield { tenantKey: keys.tenantOfSession(key), record: parseSession(json) }
}

function asTenant(core: Core, tenantKey: string): Core {
  return { ...core, tenantKey, store: core.storeOf(tenantKey) }
}

/** Deleted, and nobody reads on who began before: that is known, as nobody begins later. */
function isUnneeded(core: Core, { id, deletedAt }: SessionRecord): boolean {
  return deletedAt !== undefined && heldStates(core, id) === undefined
}

async function settleSessions(run: Run): Promise<void> {
  const { core, keepRedo, signal, report, counts } = run
  await deleteExpired(run)
  const deleted = await deletedSessions(run)
  // A fork of one of these was asked for before its deletion, so it is seen from here on.
  await readingsEnded(core)
  await queued(core)
  const histories: (SettledHistory & Pick<StoredSession, 'tenantKey'>)[] = []
  const settled = new Set<string>()
  let done = 0
  for await (const { tenantKey, record } of storedSessions(core)) {
    signal.throwIfAborted()
    settled.add(record.id)
    if (isUnneeded(core, record)) continue
    const history = await prepareHistory(asTenant(core, tenantKey), record, { keepRedo })
    const { plan } = history
    if (plan.drop.length > 0 || plan.pruneTo > history.prunedTo) histories.push({ ...history, tenantKey })
    report('sessions', ++done)
  }
  // Who began to read history before the snapshots were there may be at what is taken away now.
  await queued(core)
  await readingsEnded(core)
  await keepForks(run, settled)
  for (const history of histories) {
    signal.throwIfAborted()
    const pruned = await pruneHistory(asTenant(core, history.tenantKey), history)
    counts.prunedEvents += pruned.events
    counts.deletedRecords += pruned.snapshots
    counts.freedBytes += pruned.bytes
  }
  for (const session of deleted.values()) {
    signal.throwIfAborted()
    await deleteStored(run, session)
    report('sessions', ++done)
  }
  await deleteScans(run)
  // Nor is anybody left who goes on from a snapshot that is gone: it is in memory by now, or nowhere.
  await readingsEnded(core)
  await nextTurn()
}

async function deletedSessions({ core }: Run): Promise<Map<string, StoredSession>> {
  await queued(core)
  const deleted = new Map<string, StoredSession>()
  for await (const session of storedSessions(core)) {
    const { id } = session.record
    if (isUnneeded(core, session.record) && !core.arriving.has(id)) deleted.set(id, session)
  }
  return deleted
}

/**
 * A fork that was made meanwhile may start from a state that was the newest one of its session then, and is behind
 * what is taken away now: that state becomes its own. What is forked later starts from what is kept, or from these.
 */
async function keepForks({ core, signal }: Run, settled: ReadonlySet<string>): Promise<void> {
  for await (const { tenantKey, record } of storedSessions(core)) {
    signal.throwIfAborted()
    if (settled.has(record.id) || isUnneeded(core, record) || record.base === undefined) continue
    await storeState(asTenant(core, tenantKey), record.id, 0)
  }
}

/** A session that nobody asks for is deleted by collection. */
async function deleteExpired({ core, signal }: Run): Promise<void> {
  const expired: StoredSession[] = []
  for await (const session of storedSessions(core)) {
    const { record } = session
    signal.throwIfAborted()
    if (record.deletedAt !== undefined || (record.ttlSeconds ?? core.sessionTtlSeconds) === undefined)
      continue
    const [lastActivityAt] = await lastActivities(asTenant(core, session.tenantKey), [record])
    if (isExpired(core, { record, lastActivityAt: lastActivityAt! })) expired.push(session)
  }
  for (const { tenantKey, record } of expired) {
    const deleted = core.expire(asTenant(core, tenantKey), record.id)
    // Somebody else may have been faster.
    await deleted.catch((error: unknown) => {
      if (!(error instanceof EngineError) || error.reason !== 'SESSION_NOT_FOUND') throw error
    })
  }
}

/** Everything that is stored of a deleted session; when it was there goes into a sum, which usage counts. */
async function deleteStored({ core, counts }: Run, { tenantKey, record }: StoredSession): Promise<void> {
  const { id, deletedAt = 0, createdAt } = record
  const spaces = [
    keys.snapshots,
    keys.checkpoints,
    keys.branchTips,
    keys.fileLocks,
    keys.annotations,
    keys.approvals,
    keys.cacheEntries,
    keys.busMessages,
    keys.healthReports,
    keys.secrets,
    keys.lastRead,
    keys.analytics,
  ]
  let del: string[] = []
  const flush = async (more: StoreCommit = {}): Promise<void> => {
    counts.deletedRecords += del.length
    await core.store.commit({ ...more, del: [...del, ...(more.del ?? [])] })
    del = []
  }
  for (const space of spaces) {
    for await (const page of scanAll(core, space(id))) {
      for (const [key, value] of page) {
        del.push(key)
        counts.freedBytes += key.length + value.length
      }
      if (del.length >= deletedAtOnce) await flush()
    }
  }
  // One that never was whole was never there.
  const put = deletedAt === createdAt ? [] : await countPast(core, tenantKey, { createdAt, deletedAt })
  await flush({ put, del: [keys.session(tenantKey, id)], deleteEvents: [id] })
  counts.deletedSessions++
}

/** What was seen of directories of which the source is deleted: nobody scans them again. */
async function deleteScans({ core, counts, signal }: Run): Promise<void> {
  for await (const page of scanAll(core, keys.allSources())) {
    for (const [key, json] of page) {
      const { sourceId, path, deletedAt } = JSON.parse(json) as ScannedSource
      if (path === undefined || deletedAt === undefined) continue
      const seen = keys.hostEntries(keys.tenantOfSource(key), keys.scanPlace(sourceId), '')
      for await (const entries of scanAll(core, seen)) {
        signal.throwIfAborted()
        await core.store.commit({ del: entries.map(([name]) => name) })
        counts.deletedRecords += entries.length
        for (const [name, value] of entries) counts.freedBytes += name.length + value.length
      }
    }
  }
}

/** A source, as far as it matters here. */
interface ScannedSource {
  readonly sourceId: string
  readonly path?: string
  readonly deletedAt?: number
}

async function sweepUnmarked(run: Run): Promise<void> {
  const { core, signal } = run
  const ended = core.writes.beginWithAll()
  const before = core.ids.newId()
  try {
    const marker = new Marker(core, signal)
    const inMemory = rootsInMemory(core)
    const contents = [...core.content.inUse()]
    await queued(core)
    await markStored(run, marker)
    for (const node of inMemory) {
      await marker.inMemory(node)
      run.report('mark', marker.size)
    }
    for (const body of contents) marker.body(body)
    await sweepNodes(run, marker)
    const kept = await sweepBlobs(run, marker)
    await compactLedgers(run, before, kept)
  } finally {
    ended()
  }
}

/** Whatever somebody may read or build on, frozen: what changes from here on is written from here on. */
function rootsInMemory(core: Core): Set<InUseNode> {
  const roots = new Set<InUseNode>()
  for (const live of [...core.live.values(), ...core.residency.left, ...core.dropped.values()]) {
    roots.add(live.tree.freeze())
    roots.add(live.baseline)
    for (const root of live.pins?.values() ?? []) roots.add(root)
  }
  for (const node of core.loader.inUse?.nodes() ?? []) roots.add(node)
  return roots
}

async function markStored(run: Run, marker: Marker): Promise<void> {
  const { core, signal, report } = run
  const baseline = async ({ root, revision }: Baseline): Promise<void> => {
    await marker.root(root)
    if (revision?.git?.root !== undefined) await marker.root(revision.git.root)
  }
  for await (const { record } of storedSessions(core)) {
    signal.throwIfAborted()
    await baseline(record.baseline)
    const snapshots = await snapshotsOf(core, record.id)
    for (const { root } of snapshots) await marker.root(root)
    for await (const page of redoBehind(core, record.id, prunedTo(snapshots))) {
      for (const { body } of page) if (typeof body[5] === 'object') marker.redo(body[5])
      await marker.rest()
    }
    for await (const page of scanAll(core, keys.cacheEntries(record.id))) {
      for (const [, json] of page) {
        const { value } = JSON.parse(json) as { value: string | readonly (readonly [string, number])[] }
        if (typeof value !== 'string') for (const [hash] of value) marker.blob(hash)
      }
      await marker.rest()
    }
    report('mark', marker.size)
  }
  for (const prefix of [keys.allRevisions(), keys.allGitTrees()]) {
    for await (const page of scanAll(core, prefix)) {
      for (const [, json] of page) {
        const revision = JSON.parse(json) as Partial<Baseline>
        // Labels stand among the revisions.
        if (revision.root !== undefined) await baseline(revision as Baseline)
      }
      report('mark', marker.size)
    }
  }
  for await (const page of scanAll(core, keys.allHostEntries())) {
    for (const [key, json] of page) {
      if (!keys.isCheckout(key)) continue
      const { trees } = JSON.parse(json) as { readonly trees: readonly EncodedNode[] }
      for (const root of trees) await marker.root(root)
    }
    await marker.rest()
  }
  for await (const page of scanAll(core, keys.allGitObjects())) {
    for (const [, json] of page) {
      const object = JSON.parse(json) as { hash?: string; blobs?: readonly (readonly [string, number])[] }
      if (object.hash !== undefined) marker.blob(object.hash)
      for (const [hash] of object.blobs ?? []) marker.blob(hash)
    }
    await marker.rest()
  }
  report('mark', marker.size)
}

async function sweepNodes({ core, signal, report, counts }: Run, marker: Marker): Promise<void> {
  let seen = 0
  for await (const page of scanAll(core, keys.allNodes())) {
    signal.throwIfAborted()
    const del: string[] = []
    let bytes = 0
    for (const [key, json] of page) {
      const address = key.slice(keys.allNodes().length)
      if (marker.hasNode(address) || core.writes.has(address)) continue
      del.push(key)
      bytes += key.length + json.length
    }
    // At once: what is written again from here on is behind it.
    if (del.length > 0) await core.store.commit({ del })
    counts.deletedNodes += del.length
    counts.freedBytes += bytes
    report('sweep', (seen += page.length))
    await marker.rest()
  }
}

/** Gives what was not deleted, by as much of its hash as ledgers have. */
async function sweepBlobs({ core, signal, report, counts }: Run, marker: Marker): Promise<DigestTable> {
  let seen = 0
  const kept = new DigestTable()
  for (let after = ''; ;) {
    signal.throwIfAborted()
    const page = (await core.store.listBlobs?.(after, deletedAtOnce)) ?? []
    const deleteBlobs: string[] = []
    let freed = 0
    for (const { hash, bytes } of page) {
      if (marker.hasBlob(hash) || core.writes.has(hash)) {
        kept.add(ledgerDigest(hash))
        continue
      }
      deleteBlobs.push(hash)
      freed += bytes
    }
    if (deleteBlobs.length > 0) await core.store.commit({ deleteBlobs })
    counts.deletedBlobs += deleteBlobs.length
    counts.freedBytes += freed
    report('sweep', (seen += page.length))
    if (page.length < deletedAtOnce) return kept
    after = page.at(-1)!.hash
    await marker.rest()
  }
}

function ledgerDigest(hash: string): string {
  return hash.slice(0, hashDigits).padEnd(DigestTable.keyDigits, '0')
}

/** What tenants wrote before the marking, without what is gone by now. */
async function compactLedgers({ core, signal }: Run, before: string, kept: DigestTable): Promise<void> {
  const isKept = (hash: string): boolean => kept.has(ledgerDigest(hash))
  const lt = prefixEnd(keys.everyWrittenBlobs())
  for (let gte = keys.everyWrittenBlobs(); ;) {
    signal.throwIfAborted()
    const [first] = await core.store.scan({ gte, lt, limit: 1 })
    if (first === undefined) return
    const tenantKey = keys.tenantOfWrittenBlobs(first[0])
    await core.storeOf(tenantKey).compactAmounts(before, isKept)
    gte = prefixEnd(keys.allWrittenBlobs(tenantKey))
  }
}
