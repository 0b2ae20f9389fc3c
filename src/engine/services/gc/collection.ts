import { itemAt } from '../../base/present.js'
import { parseFlag, parseFunction } from '../../base/input.js'
import { checkSignal, pause, withSignals } from '../../base/abort.js'
import { engineClosed, EngineError, messageOf, unknownRecords } from '../../base/errors.js'
import { inGroups } from '../../base/in-groups.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { nextTurn, TimeSlice } from '../../base/cooperative.js'
import type { Core } from '../../session/core.js'
import { newestSeq, prunedTo, redoAfter, snapshotsOf } from '../../session/history/prune.js'
import { countSessionBytes } from '../../session/usage/count-session-bytes.js'
import { keyPrefixes, keys, prefixEnd } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import type { SweptObjects } from '../../storage/store.js'
import { GarbageEstimate } from './garbage-estimate.js'
import { Marker } from './mark.js'
import { EngineEnded, SharedRun } from './shared-run.js'
import { unlessLost } from './unless-lost.js'
import { asTenant, queued, type CollectCounts, type CollectStage, type Run } from './run.js'
import { deleteScans } from './deleted-scans.js'
import { deleteExpiredEntries } from './expired-cache-entries.js'
import { deleteExpired, deleteUnneeded, settleSessions } from './expired-sessions.js'
import { readStateReferences, StateReferences } from './state-references.js'
import { kindOf, recordKinds } from '../../records/index.js'
import { sessionKind } from '../../records/session.js'

/** Options of `engine.collect`. */
export interface CollectOptions {
  /**
   * true: keeps all redo, the part of an event that replays its change. By default, a collection removes redo
   * from before the oldest state that is still referenced, such as the oldest checkpoint. The events themselves stay.
   */
  readonly keepRedo?: boolean
  /** Stops the collection and rejects with the signal's reason. Space that it freed before stays freed. */
  readonly signal?: AbortSignal
  /** Called now and then with the progress. */
  readonly onProgress?: (progress: CollectProgress) => void
}

/** The progress of a collection. */
export interface CollectProgress {
  /** Stages run in the order of this type. */
  readonly stage: CollectStage
  /** Sessions in `sessions`, marked objects in `mark`, checked objects in `sweep`, and 0 in `reclaim`. */
  readonly done: number
}

/** The results of a collection. */
export interface Collected {
  /** Bytes of contents, tree nodes, records and redo. The store's files may shrink by more or less. */
  readonly freedBytes: number
  /** Number of deleted blobs. A blob is a content, or a block of a larger one. */
  readonly deletedBlobs: number
  /** Number of deleted tree nodes. A node is a directory, or part of one. */
  readonly deletedNodes: number
  /** Number of deleted snapshots, expired cache entries, and records of deleted sessions and sources. */
  readonly deletedRecords: number
  /** Number of deleted sessions whose records and events the collection removed from the store. */
  readonly deletedSessions: number
  /** Number of events whose redo the collection removed. */
  readonly prunedEvents: number
  /** Duration in milliseconds. */
  readonly tookMs: number
}

const nothing: CollectCounts = {
  freedBytes: 0,
  deletedBlobs: 0,
  deletedNodes: 0,
  deletedRecords: 0,
  deletedSessions: 0,
  prunedEvents: 0,
}

/**
 * Deletes unreachable objects by mark and sweep. It runs in slices, concurrently with all other work. One collection
 * runs at a time; others wait for their turn.
 *
 * 1. Every referenced state gets a snapshot. Deleted sessions and older redo are then unused, and are deleted.
 * 2. From now on, writes are noted and every tree in memory is a root. The collection marks all objects that are
 *    reachable from records, from trees in memory, and from the redo after the first snapshot of each session.
 * 3. Commits delete the nodes and blobs that are neither marked nor noted. A write before the deletion is noted. A later
 *    write comes after the deletion in the store's queue. So an interruption leaves garbage, never a missing object.
 */
export class Collection {
  readonly estimate = new GarbageEstimate()
  readonly #markBytes: number
  readonly #closing = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  /** The marks use a share of the memory budget, within fixed bounds. */
  constructor({ memoryBudgetBytes }: { readonly memoryBudgetBytes: number }) {
    this.#markBytes = memoryBudgetBytes / limits.markShare
  }

  /**
   * Runs a collection when its turn comes.
   *
   * @throws {EngineError} DATA_LOSS when a stored state cannot be read completely; the sweep then deletes nothing
   * @throws {EngineError} STORE_LOCKED when another engine collects the same store
   */
  collect(core: Core, options: CollectOptions): Promise<Collected> {
    return this.pausedFor(options.signal, async (signal) => {
      if (core.fence.closed) await core.fence.recover()
      const { shared } = core.store
      await shared?.beginCollection()
      return this.#untilEnd(core, () => this.#collect(core, options, signal))
    })
  }

  /** Does work while no engine collects the store; see {@link pausedFor}. Waits for the collection of another engine. */
  pausedEverywhere<T>(
    core: Core,
    ending: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.pausedFor(ending, async (signal) => {
      const { environment, store } = core
      const startedAt = environment.monotonicMs()
      for (;;) {
        try {
          await store.shared?.beginCollection()
          break
        } catch (error) {
          const isLocked = error instanceof EngineError && error.reason === 'STORE_LOCKED'
          if (!isLocked || environment.monotonicMs() - startedAt > limits.sharedBarrierMs) throw error
          await pause(limits.sharedEpochMs, signal)
        }
      }
      return this.#untilEnd(core, () => work(signal))
    })
  }

  /** Gives the right to collect back after some work. */
  async #untilEnd<T>(core: Core, work: () => Promise<T>): Promise<T> {
    const { shared } = core.store
    try {
      return await work()
    } finally {
      // If this fails, other engines end the collection once the lease of this one is over.
      await shared
        ?.endCollection()
        .catch((error: unknown) =>
          core.log('warn', 'the end of a collection was not stored', { error: messageOf(error) }),
        )
      if (shared !== undefined) await core.sharing?.acknowledge(core).catch(() => undefined)
    }
  }

  /** Like {@link collect}, but only if `isDue` holds when its turn comes. Resolves with the result of `isDue`. */
  collectIf(core: Core, options: CollectOptions, isDue: () => Promise<boolean>): Promise<boolean> {
    return this.pausedFor(options.signal, async (signal) => {
      if (!(await isDue())) return false
      await this.#collect(core, options, signal)
      return true
    })
  }

  async #collect(
    core: Core,
    { keepRedo = false, onProgress }: CollectOptions,
    signal: AbortSignal,
  ): Promise<Collected> {
    let sessions = 0
    const report = (stage: CollectProgress['stage'], done: number): void => {
      if (stage === 'sessions') {
        // Expired sessions are deleted by now.
        if (sessions === 0) this.estimate.begin()
        sessions = done
      }
      onProgress?.({ stage, done })
    }
    this.estimate.begin()
    const guarded = unlessLost(core)
    const run: Run = {
      core: guarded,
      shared: core.store.shared && new SharedRun(guarded, core.store.shared, signal),
      keepRedo,
      signal,
      slice: new TimeSlice(core.environment),
      report,
      counts: { ...nothing },
      markBytes: this.#markBytes,
    }
    // On a shared store, this follows from the epoch.
    if (run.shared === undefined) core.table.isCollecting = true
    const collected = await collectNow(run).finally(() => {
      if (run.shared === undefined) core.table.isCollecting = false
    })
    const storeBytes = (await core.store.size?.()) ?? 0
    this.estimate.collected({ storeBytes, sessions, freedBytes: collected.freedBytes })
    return collected
  }

  /** Does work while no collection runs. The work gets a signal that aborts with `ending` and when the engine closes. */
  pausedFor<T>(ending: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const before = this.#running
    const done = withSignals([ending, this.#closing.signal], async (signal) => {
      await before
      signal.throwIfAborted()
      return work(signal)
    })
    this.#running = Promise.allSettled([before, done])
    return done
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  /** Aborts the running collection and waits for its end. */
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
  parseFlag('keepRedo', keepRedo, false)
  parseFunction('onProgress', onProgress)
  return copy
}

/** The key prefixes of records that refer to trees or blobs. */
const referringPrefixes = new Set(
  recordKinds.filter((kind) => kind.hasReferences).map(({ prefix }) => prefix),
)

/**
 * Rejects a store that has records of an unknown kind. These may be the only references to contents and sessions, so
 * nothing is deleted.
 */
async function refuseUnknownRecords({ core, signal }: Run): Promise<void> {
  const known = Object.values<string>(keyPrefixes).sort()
  for (const [index, prefix] of ['', ...known].entries()) {
    signal.throwIfAborted()
    // The gap between one known prefix and the next.
    const gte = prefix === '' ? '' : prefixEnd(prefix)
    const [found] = await core.store.scan({ gte, lt: known[index] ?? '\u{10ffff}', limit: 1 })
    if (found !== undefined) throw unknownRecords(itemAt(Array.from(found[0]), 0))
  }
}

async function collectNow(run: Run): Promise<Collected> {
  const { core, counts } = run
  await refuseUnknownRecords(run)
  const start = core.environment.monotonicMs()
  await (core.journal.kept(() => collectStore(run)) ?? collectRecords(run))
  const tookMs = Math.max(0, core.environment.monotonicMs() - start)
  core.log('info', 'a collection ended', { ...counts, tookMs })
  return { ...counts, tookMs }
}

async function collectStore(run: Run): Promise<void> {
  const { core } = run
  for (let attempt = 1; ; attempt++) {
    try {
      await settleSessions(run)
      await deleteScans(run)
      await deleteExpiredEntries(run)
      await (run.shared === undefined ? sweepUnmarked(run) : sweepShared(run, run.shared))
      break
    } catch (error) {
      if (!(error instanceof EngineEnded)) throw error
      if (attempt === limits.sharedCollectionRuns) throw enginesEnded()
      run.shared?.restart()
    }
  }
  await core.store.recounted?.()
  // Sessions that are loaded meanwhile are counted before their first use.
  const inMemory = Array.from(core.table.live.values())
  for (const live of inMemory) await countSessionBytes(asTenant(core, live.tenantKey), live)
  run.report('reclaim', 0)
  await core.store.reclaim?.({ signal: run.signal })
}

/** Collects an engine without a durable store. JavaScript frees its trees and contents; only records remain. */
async function collectRecords(run: Run): Promise<void> {
  const references = new StateReferences(run.markBytes)
  await deleteExpired(run, references)
  await readStateReferences(run, references)
  await deleteUnneeded(run, references)
}

async function sweepUnmarked(run: Run): Promise<void> {
  const { core, signal } = run
  // The callers of the last reads of removed history pin their results in this turn.
  await nextTurn()
  using _ = core.pins.pin({ writesSince: 'the oldest pin' })
  core.store.beginRecords()
  const before = core.ids.newId()
  const marker = new Marker(core, signal, run.markBytes)
  // Read in the same turn as the pin: trees that enter memory later were written after it.
  const inMemory = new Set(core.pins.roots())
  const contents = [...core.pins.contents()]
  await queued(core)
  // The abort of a merge deletes its record, and makes a tree of it the newest state. Then that tree is in memory now.
  await markRecords(run, marker, keyPrefixes.merge)
  for (const root of core.pins.roots()) inMemory.add(root)
  await markStored(run, marker)
  for (const node of inMemory) {
    await marker.inMemory(node)
    run.report('mark', marker.size)
  }
  for (const body of contents) marker.body(body)
  await sweepNodes(run, marker)
  await sweepBlobs(run, marker)
  await compactLedgers(run, before, marker)
}

/**
 * The same on a store that other engines use meanwhile.
 *
 * Consider the moment when all records have been read. An object that is used later is then below a record, or in the
 * memory of an engine. If the record existed all the time, it was read. If it was stored meanwhile, its engine noted and
 * published it. An engine publishes the objects in its memory at that moment. Before it forgets one of them, it stores a
 * record that refers to the object, and publishes that reference.
 */
async function sweepShared(run: Run, shared: SharedRun): Promise<void> {
  const { core, signal } = run
  const before = core.ids.newId()
  // From here on, objects that any engine stores or uses in a commit again have this epoch.
  const epoch = await shared.barrier('references')
  const marker = new Marker(core, signal, run.markBytes)
  await markStored(run, marker)
  await shared.barrier('roots')
  const keptSince = await shared.mark(marker, epoch)
  run.report('mark', marker.size)
  const sweep = (objects: SweptObjects): Promise<ReadonlySet<string>> => shared.sweep(objects, keptSince)
  await sweepNodes(run, marker, sweep)
  await sweepBlobs(run, marker, sweep)
  await compactLedgers(run, before, marker)
}

async function markStored(run: Run, marker: Marker): Promise<void> {
  const { core, signal, report } = run
  // Each wait is long on a busy event loop, so many sessions wait together. `eventsAtOnce` bounds the group.
  let group: RedoRange[] = []
  let events = 0
  const markGroup = async (): Promise<void> => {
    await inGroups(group, group.length, async (range) => markRedo(run, marker, range))
    group = []
    events = 0
    report('mark', marker.size)
  }
  for await (const page of scanAll(core, keys.allSessions(), { reverse: true })) {
    signal.throwIfAborted()
    // Redo that is written after this read is noted.
    const ranges: RedoRange[] = []
    await inGroups(page, limits.collectedAtOnce, async ([key, json]) => {
      ranges.push(await redoRange(core, key, json))
      await marker.rest()
    })
    for (const range of ranges) {
      if (range.last <= range.first) continue
      group.push(range)
      events += Math.min(range.last - range.first, limits.prunedAtFirst)
      if (events >= limits.markedEvents) await markGroup()
    }
  }
  await markGroup()
  for (const prefix of referringPrefixes) await markRecords(run, marker, prefix)
}

async function markRecords({ core, report }: Run, marker: Marker, prefix: string): Promise<void> {
  // In reverse order, so that the scan does not reach records that are added meanwhile.
  for await (const page of scanAll(core, prefix, { reverse: true })) {
    for (const [key, json] of page) await marker.record(kindOf(key), key, json)
    report('mark', marker.size)
    await marker.rest()
  }
}

/** The events of a session whose redo is kept: those after `first`, up to `last`. */
interface RedoRange {
  readonly sessionId: string
  readonly first: number
  readonly last: number
}

async function redoRange(core: Core, key: string, json: string): Promise<RedoRange> {
  const { id: sessionId } = sessionKind.parse(json, key)
  const [last, snapshots] = await Promise.all([newestSeq(core, sessionId), snapshotsOf(core, sessionId)])
  return { sessionId, first: prunedTo(snapshots), last }
}

async function markRedo({ core, signal }: Run, marker: Marker, range: RedoRange): Promise<void> {
  signal.throwIfAborted()
  for await (const page of redoAfter(core, range.sessionId, range.first, range.last)) {
    for (const { body } of page) if (typeof body[5] === 'object') marker.redo(body[5])
    await marker.rest()
  }
}

/** Deletes objects, and resolves to those that it has deleted. */
type Sweep = (objects: SweptObjects) => Promise<ReadonlySet<string>>

async function sweepNodes(
  { core, signal, report, counts }: Run,
  marker: Marker,
  sweep?: Sweep,
): Promise<void> {
  let seen = 0
  for await (const page of scanAll(core, keys.allNodes())) {
    signal.throwIfAborted()
    const del = new Map<string, number>()
    for (const [key, json] of page) {
      const address = key.slice(keys.allNodes().length)
      if (marker.has(address) || core.pins.isWritten(address)) continue
      del.set(key, key.length + json.length)
    }
    const nodes = [...del.keys()]
    // In the same turn as the check: a later write of the node comes after this commit.
    if (nodes.length > 0) {
      if (sweep === undefined) await core.store.commit({ del: nodes })
      else keepOthers(del, await sweep({ nodes }))
    }
    counts.deletedNodes += del.size
    for (const bytes of del.values()) counts.freedBytes += bytes
    report('sweep', (seen += page.length))
    await marker.rest()
  }
}

async function sweepBlobs(
  { core, signal, report, counts }: Run,
  marker: Marker,
  sweep?: Sweep,
): Promise<void> {
  let seen = 0
  for (let after = ''; ;) {
    signal.throwIfAborted()
    const page = (await core.store.listBlobs?.(after, limits.recordsPerCommit)) ?? []
    const del = new Map<string, number>()
    for (const { hash, bytes } of page)
      if (!marker.has(hash) && !core.pins.isWritten(hash)) del.set(hash, bytes)
    const blobs = [...del.keys()]
    if (blobs.length > 0) {
      if (sweep === undefined) await core.store.commit({ deleteBlobs: blobs })
      // The ledgers keep the contents that were used again meanwhile.
      else for (const hash of keepOthers(del, await sweep({ blobs }))) marker.blob(hash)
    }
    counts.deletedBlobs += del.size
    for (const bytes of del.values()) counts.freedBytes += bytes
    report('sweep', (seen += page.length))
    if (page.length < limits.recordsPerCommit) return
    after = itemAt(page, -1).hash
    await marker.rest()
  }
}

/** Leaves only the deleted objects in a map, and returns the others. */
function keepOthers(objects: Map<string, number>, deleted: ReadonlySet<string>): string[] {
  const others = [...objects.keys()].filter((name) => !deleted.has(name))
  for (const name of others) objects.delete(name)
  return others
}

function enginesEnded(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    `other engines lost their leases during each of ${limits.sharedCollectionRuns} tries of the collection, for example ` +
      'because their processes were killed. Nothing in use was deleted; collect again',
  )
}

/** Removes deleted contents from the tenants' ledgers of writes before the marking. */
async function compactLedgers({ core, signal }: Run, before: string, marker: Marker): Promise<void> {
  // The sweep kept exactly these.
  const isKept = (hashDigits: string): boolean => marker.has(hashDigits) || core.pins.isWritten(hashDigits)
  const lt = prefixEnd(keys.everyWrittenBlobs())
  for (let gte = keys.everyWrittenBlobs(); ;) {
    signal.throwIfAborted()
    const [first] = await core.store.scan({ gte, lt, limit: 1 })
    if (first === undefined) return
    const tenantKey = keys.tenantOfWrittenBlobs(first[0])
    await core.storeOf(tenantKey).compactAmounts(core.store, before, isKept)
    gte = prefixEnd(keys.allWrittenBlobs(tenantKey))
  }
}
