import { parseFlag, parseFunction } from '../../base/input.js'
import { checkSignal, withSignals } from '../../base/abort.js'
import { engineClosed, unknownRecords } from '../../base/errors.js'
import { inGroups } from '../../base/in-groups.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { TimeSlice } from '../../base/slices.js'
import type { Core } from '../../session/core.js'
import { firstEvents, newestSeq, prunedTo, redoBehind, snapshotsOf } from '../../session/history/prune.js'
import { countSession } from '../../session/usage/count-session.js'
import { keyPrefixes, keys, prefixEnd } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import { GarbageEstimate } from './garbage-estimate.js'
import { Marker } from './mark.js'
import { asTenant, queued, sessionsAtOnce, type CollectCounts, type CollectStage, type Run } from './run.js'
import { deleteExpired, deleteUnneeded, settleSessions } from './expired-sessions.js'
import { kindOf, recordKinds } from '../../records/index.js'
import { sessionKind } from '../../records/session.js'
import { sourceKind } from '../../records/source.js'

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
  readonly stage: CollectStage
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

const nothing: CollectCounts = {
  freedBytes: 0,
  deletedBlobs: 0,
  deletedNodes: 0,
  deletedRecords: 0,
  deletedSessions: 0,
  prunedEvents: 0,
}

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
  readonly estimate = new GarbageEstimate()
  readonly #markBytes: number
  readonly #closing = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  /** Its marks have a part of the budget, or a little that is the same for all. */
  constructor({ memoryBudgetBytes }: { readonly memoryBudgetBytes: number }) {
    this.#markBytes = memoryBudgetBytes / limits.markShare
  }

  /** DATA_LOSS, with nothing deleted by it, where a stored state cannot be read whole. */
  collect(core: Core, options: CollectOptions): Promise<Collected> {
    return this.pausedFor(options.signal, (signal) => this.#collect(core, options, signal))
  }

  /** As {@link collect}, if it is still due when its turn comes; says whether it was. */
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
        // Sessions whose time was over are deleted by now.
        if (sessions === 0) this.estimate.begin()
        sessions = done
      }
      onProgress?.({ stage, done })
    }
    this.estimate.begin()
    const run: Run = {
      core,
      keepRedo,
      signal,
      slice: new TimeSlice(core.environment),
      report,
      counts: { ...nothing },
      markBytes: this.#markBytes,
    }
    core.table.isCollecting = true
    const collected = await collectNow(run).finally(() => {
      core.table.isCollecting = false
    })
    const storeBytes = (await core.store.size?.()) ?? 0
    this.estimate.collected({ storeBytes, sessions, freedBytes: collected.freedBytes })
    return collected
  }

  /** Does something while nothing is collected, until the signal aborts or the engine closes. */
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
  parseFlag('keepRedo', keepRedo, false)
  parseFunction('onProgress', onProgress)
  return copy
}

/** Events that marking reads at once, of all sessions together. */
const eventsAtOnce = 512

/** Of the kinds whose records refer to trees or blobs. */
const referringPrefixes = new Set(
  recordKinds.filter((kind) => kind.hasReferences).map(({ prefix }) => prefix),
)

/**
 * Records of a kind that this version does not know may lead to contents and sessions that nothing else leads to. So
 * nothing is deleted from a store that has one.
 */
async function refuseUnknownRecords({ core, signal }: Run): Promise<void> {
  const known = Object.values<string>(keyPrefixes).sort()
  for (const [index, prefix] of ['', ...known].entries()) {
    signal.throwIfAborted()
    // From the end of one prefix to the next one.
    const gte = prefix === '' ? '' : prefixEnd(prefix)
    const [found] = await core.store.scan({ gte, lt: known[index] ?? '\u{10ffff}', limit: 1 })
    if (found !== undefined) throw unknownRecords(Array.from(found[0])[0]!)
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
  await settleSessions(run)
  await deleteScans(run)
  await sweepUnmarked(run)
  await core.store.recounted?.()
  // Sessions that come into memory meanwhile are counted before they are used.
  const inMemory = Array.from(core.table.live.values())
  for (const live of inMemory) await countSession(asTenant(core, live.tenantKey), live)
  run.report('reclaim', 0)
  await core.store.reclaim?.({ signal: run.signal })
}

/** Where memory is the truth it is collected itself, but for records. */
async function collectRecords(run: Run): Promise<void> {
  await deleteExpired(run)
  await deleteUnneeded(run)
}

/** What was seen of directories of which the source is deleted: nobody scans them again. */
async function deleteScans({ core, counts, signal }: Run): Promise<void> {
  for await (const page of scanAll(core, keys.allSources())) {
    for (const [key, json] of page) {
      const { sourceId, path, deletedAt } = sourceKind.parse(json, key)
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

async function sweepUnmarked(run: Run): Promise<void> {
  const { core, signal } = run
  using _ = core.pins.pin({ writesSince: 'the oldest pin' })
  const before = core.ids.newId()
  const marker = new Marker(core, signal, run.markBytes)
  // In the turn in which the pin begins: what is in memory later was written since.
  const inMemory = new Set(core.pins.roots())
  const contents = [...core.pins.contents()]
  await queued(core)
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

async function markStored(run: Run, marker: Marker): Promise<void> {
  const { core, signal, report } = run
  // Beside a load each wait takes long, so many sessions wait together; the bound is on the events that they read.
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
    // What is written from here on is noted.
    const ranges: RedoRange[] = []
    await inGroups(page, sessionsAtOnce, async ([key, json]) => {
      ranges.push(await redoRange(core, key, json))
      await marker.rest()
    })
    for (const range of ranges) {
      if (range.last <= range.first) continue
      group.push(range)
      events += Math.min(range.last - range.first, firstEvents)
      if (events >= eventsAtOnce) await markGroup()
    }
  }
  await markGroup()
  for (const prefix of referringPrefixes) {
    // The newest first: those that are written meanwhile are not among them, however many they are.
    for await (const page of scanAll(core, prefix, { reverse: true })) {
      for (const [key, json] of page) await marker.record(kindOf(key), key, json)
      report('mark', marker.size)
      await marker.rest()
    }
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
  for await (const page of redoBehind(core, range.sessionId, range.first, range.last)) {
    for (const { body } of page) if (typeof body[5] === 'object') marker.redo(body[5])
    await marker.rest()
  }
}

async function sweepNodes({ core, signal, report, counts }: Run, marker: Marker): Promise<void> {
  let seen = 0
  for await (const page of scanAll(core, keys.allNodes())) {
    signal.throwIfAborted()
    const del: string[] = []
    let bytes = 0
    for (const [key, json] of page) {
      const address = key.slice(keys.allNodes().length)
      if (marker.has(address) || core.pins.isWritten(address)) continue
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

async function sweepBlobs({ core, signal, report, counts }: Run, marker: Marker): Promise<void> {
  let seen = 0
  for (let after = ''; ;) {
    signal.throwIfAborted()
    const page = (await core.store.listBlobs?.(after, limits.recordsPerCommit)) ?? []
    const deleteBlobs: string[] = []
    let freed = 0
    for (const { hash, bytes } of page) {
      if (marker.has(hash) || core.pins.isWritten(hash)) continue
      deleteBlobs.push(hash)
      freed += bytes
    }
    if (deleteBlobs.length > 0) await core.store.commit({ deleteBlobs })
    counts.deletedBlobs += deleteBlobs.length
    counts.freedBytes += freed
    report('sweep', (seen += page.length))
    if (page.length < limits.recordsPerCommit) return
    after = page.at(-1)!.hash
    await marker.rest()
  }
}

/** What tenants wrote before the marking, without what is gone by now. */
async function compactLedgers({ core, signal }: Run, before: string, marker: Marker): Promise<void> {
  // The sweep left these, and no others.
  const isKept = (hashDigits: string): boolean => marker.has(hashDigits) || core.pins.isWritten(hashDigits)
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
