import { engineClosed, EngineError } from '../../base/errors.js'
import { Fault, whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { present } from '../../base/present.js'
import { Tree } from '../../tree/tree.js'
import { inBackground, sessionNotFound, type Core } from '../core.js'
import { takeOverReferences } from '../file-references.js'
import { notifyFollowers } from '../history/feed.js'
import { evictWhenDue } from '../table/eviction.js'
import type { LiveSession } from '../table/live.js'
import { countSessionBytes } from '../usage/count-session-bytes.js'
import { setBytesWritten } from '../usage/session-bytes.js'
import { readNewerState, type NewerState } from './newer-state.js'
import { Change, Overtaken, type SharedSession } from './shared-session.js'

/**
 * Runs a change of a session that other engines may change too. If another engine was first, the change runs again from
 * its plan, after the changes that were called before it. While that happens, later changes wait: this throws a Fault.
 */
export function changeShared<T>(live: LiveSession, plan: () => Promise<T>): Promise<T> {
  const shared = sharedOf(live)
  if (shared.catchingUp !== undefined) throw new Fault(() => shared.catchingUp ?? Promise.resolve())
  let result: T | undefined
  const change = new Change(() =>
    plan().then((value) => {
      result = value
    }),
  )
  const before = live.acknowledged
  runOnce(shared, change)
  // A change without commits may end before those that were called before it.
  setNewest(live, [before, change.done])
  return change.done.then(() => result as T)
}

/** Lets callers that wait for the newest change wait for all runs of these changes. */
function setNewest(live: LiveSession, changes: readonly Promise<void>[]): void {
  live.acknowledged = Promise.allSettled(changes).then((fates) => {
    // The session stays in memory without a change that was not stored.
    if (live.discarded === undefined) return
    for (const fate of fates) if (fate.status === 'rejected') throw fate.reason
  })
  live.acknowledged.catch(ignore)
}

function runOnce(shared: SharedSession, change: Change): void {
  const run = ++change.runs
  change.commits = 0
  change.isLost = false
  let planned: Promise<void>
  const outer = shared.planning
  shared.planning = change
  try {
    planned = change.plan()
  } finally {
    shared.planning = outer
  }
  shared.inFlight.add(change)
  const isCurrent = (): boolean => change.runs === run && !change.isLost
  planned.then(
    () => {
      if (!isCurrent()) return
      shared.inFlight.delete(change)
      change.resolve()
    },
    (error: unknown) => {
      // The change runs again.
      if (!isCurrent() || error instanceof Overtaken) return
      shared.inFlight.delete(change)
      change.reject(error)
    },
  )
}

/** Brings a session in memory to the state in the store, then runs its lost changes again. Calls share one run. */
export function catchUp(core: Core, live: LiveSession): Promise<void> {
  const shared = sharedOf(live)
  if (shared.catchingUp !== undefined) return shared.catchingUp
  const { tenantKey } = live
  // A caller may process the sessions of all tenants.
  const owner = core.tenantKey === tenantKey ? core : { ...core, tenantKey, store: core.storeOf(tenantKey) }
  const ended = catchUpNow(owner, live, shared)
    .catch((error: unknown) => {
      // The session is read again from the store.
      if (live.discarded === undefined) core.table.discard(live, 'failed')
      rejectAll(shared, error)
      throw error
    })
    .finally(() => {
      shared.catchingUp = undefined
    })
  shared.catchingUp = ended
  inBackground(core, ended.catch(ignore))
  return ended
}

async function catchUpNow(core: Core, live: LiveSession, shared: SharedSession): Promise<void> {
  do {
    // Commits that were queued after a lost one are lost too.
    await shared.queued.catch(ignore)
    if (isGone(live, shared)) return
    const readAt = core.environment.monotonicMs()
    const newer = await readNewerState(core, live, shared.stored)
    if (isGone(live, shared)) return
    if (newer === undefined) {
      core.table.discard(live, 'deleted')
      core.table.endLongUse(live.id, sessionNotFound(live.id))
      rejectAll(shared, sessionNotFound(live.id))
      return
    }
    using _ = core.pins.pin({ roots: [newer.stored.root] })
    const { fileReferences } = live
    const next = new Tree(newer.stored.root, core.loader)
    if (fileReferences !== undefined)
      await whenLoaded(() =>
        takeOverReferences({ tree: next, revive: undefined, fileReferences: undefined }, live),
      )
    if (isGone(live, shared)) return
    adopt(core, live, shared, newer)
    shared.readAt = readAt
    if (newer.isPruned) await countSessionBytes(core, live)
    await runAgain(live, shared)
  } while (shared.isOvertaken)
  evictWhenDue(core)
}

/** Replaces the state in memory by that of the store. */
function adopt(core: Core, live: LiveSession, shared: SharedSession, newer: NewerState): void {
  const { record, stored, tips, events, head } = newer
  if (record.baseline.fingerprint !== live.record.baseline.fingerprint)
    live.baseline = core.roots.load(record.baseline.root)
  live.record = record
  live.tree.reset(stored.root)
  live.seq = stored.seq
  live.chain = stored.chain
  live.lastEventAt = stored.at
  live.lastActivityAt = Math.max(live.lastActivityAt, stored.at)
  setBytesWritten(live, stored.bytesWritten)
  // Cached records of services are read again.
  live.epoch = {}
  live.checkpoints = undefined
  live.lineage = undefined
  live.branchTips = tips
  if (live.pins !== undefined)
    for (const seq of live.pins.keys()) if (seq > shared.stored.seq) live.pins.delete(seq)
  live.acknowledged = Promise.resolve()
  shared.stored = stored
  shared.restart(head)
  for (const event of events) notifyFollowers(live, event)
}

/** Runs the changes again that were not stored, in the order of their calls. */
async function runAgain(live: LiveSession, shared: SharedSession): Promise<void> {
  const lost = [...shared.inFlight].filter(mustRunAgain())
  for (const change of lost) shared.inFlight.delete(change)
  const again: Promise<void>[] = []
  for (const change of lost) {
    if (change.runs >= limits.sharedChangeRuns) {
      change.reject(new Overtaken(live.id))
      continue
    }
    try {
      // A read may wait for the commit of the change before, so `acknowledged` is that commit meanwhile.
      await whenLoaded(() => runOnce(shared, change))
      again.push(change.done)
    } catch (error) {
      if (error instanceof Overtaken) {
        // That commit was lost too, so all of them run again.
        change.isLost = true
        shared.inFlight.add(change)
      } else change.reject(error)
    }
  }
  if (again.length > 0) setNewest(live, again)
}

/** A change without commits was planned on the state of the one before it. */
function mustRunAgain(): (change: Change) => boolean {
  let isAfterLost = false
  return ({ isLost, commits }) => {
    if (isLost) isAfterLost = true
    return isLost || (isAfterLost && commits === 0)
  }
}

/** Whether the session left memory meanwhile, or the store failed. */
function isGone(live: LiveSession, shared: SharedSession): boolean {
  if (live.discarded === undefined) return false
  if (live.discarded === 'deleted') rejectAll(shared, sessionNotFound(live.id))
  else rejectAll(shared, live.discarded === 'closed' ? engineClosed() : notApplied())
  return true
}

function notApplied(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the operation was not applied, because an earlier write of the session failed; repeat it',
    { outcome: 'not-applied' },
  )
}

/** Rejects the changes that were to run again. The others settle with their commits. */
function rejectAll(shared: SharedSession, error: unknown): void {
  const lost = [...shared.inFlight].filter(mustRunAgain())
  for (const change of lost) {
    shared.inFlight.delete(change)
    change.reject(error)
  }
}

function sharedOf(live: LiveSession): SharedSession {
  return present(live.shared, 'a session of a shared store')
}

function ignore(): void {}
