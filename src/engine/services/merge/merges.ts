import { TimeSlice } from '../../base/cooperative.js'
import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { compareUtf8 } from '../../base/order.js'
import { present } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import { StagedBlobs } from '../../cas/staging.js'
import type { BlobRef } from '../../cas/blob.js'
import { encodePageToken, parsePageSize, parsePageToken, type PageRequest } from '../../base/paging.js'
import type { Core } from '../../session/core.js'
import { branchTipsOf, noTips } from '../../session/branch-tips.js'
import { eventIdOf, parseEventId } from '../../session/history/event-ids.js'
import type { LineageStep } from '../../session/history/lineage-step.js'
import { eventTime, mutate, record, type NewEvent } from '../../session/mutation-queue.js'
import { prepareEffects } from '../../session/prepared-effects.js'
import { mergedChanges, treeChanges, type Change } from '../../session/tree-changes.js'
import { checkNoConflicts, withConflicts } from '../../session/status.js'
import type { LiveSession } from '../../session/table/live.js'
import { keys } from '../../storage/keys.js'
import type { StoreCommit } from '../../storage/store.js'
import type { Dir } from '../../tree/node.js'
import type { Baseline } from '../../records/baseline.js'
import { eventTypes } from '../../records/event.js'
import { withBaseline } from '../../records/session.js'
import type { MergeRecord } from '../../records/merge.js'
import { Ancestry, type GraphState } from './ancestry.js'
import type { MergeTrees } from './changed-paths.js'
import {
  describeConflict,
  readConflict,
  type ConflictContents,
  type MergeConflict,
} from './conflict-sides.js'
import { mergeBaseOf } from './merge-base.js'
import { checkConflicts, conflictNotFound, targetMoved } from './merge-errors.js'
import { FileMerger } from './merge-files.js'
import { effectsOf, type MergeEffects } from './merge-redo.js'
import type { ParsedMerge, ParsedRebase, ParsedResolution, ConflictSideName } from './merge-requests.js'
import { mergeTrees } from './merge-trees.js'
import type { FoundConflict } from './merged-trees.js'
import { OpenMerges, type OpenMerge } from './open-merge.js'
import { rebaseBaseOf, type FindOwnCommits, type NewBase } from './rebase-base.js'
import { resolutionOf } from './resolve-conflicts.js'

/** The result of a merge or rebase, or what it would be. */
export interface MergeResult {
  /**
   * Whether there was something to merge. false: the session has all changes of the source already, and
   * nothing changed.
   */
  readonly merged: boolean
  /** The `eventId` of the merge; '' for a dry run, and without anything to merge. */
  readonly eventId: string
  /** The paths that the merge changed in the session, in order, at most 10,000. */
  readonly changes: Change[]
  /** The number of all changed paths. */
  readonly changeCount: number
  /** The unresolved conflicts, in order of their paths. */
  readonly conflicts: MergeConflict[]
}

/** A page of unresolved conflicts. */
export interface ConflictPage {
  /** In order of their paths. */
  readonly conflicts: MergeConflict[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** The state that is merged into a session. Its root is frozen. */
export interface MergeSource {
  readonly sessionId: string
  /** The event of the state; undefined for the base of the session. */
  readonly seq: number | undefined
  readonly root: Dir
  /** The fingerprint of the base of that session. */
  readonly fingerprint: string
}

const nothingMerged: MergeResult = { merged: false, eventId: '', changes: [], changeCount: 0, conflicts: [] }

/** The target changed after its state was read. */
class Moved extends Error {}

/** One computed merge. */
interface Computed {
  readonly trees: MergeTrees
  readonly effects: MergeEffects
  readonly conflicts: readonly FoundConflict[]
  readonly blobs: readonly BlobRef[]
}

/** The state of the target that a change is computed from. */
interface Target {
  readonly seq: number
  /** See `LiveSession.version`. */
  readonly version: number | string
  readonly root: Dir
}

interface MergePorts {
  readonly revision: (core: Core, sourceId: string, revisionId: string) => Promise<readonly [Baseline, Dir]>
  readonly ownCommits: FindOwnCommits
}

/** Merges states into sessions, and resolves conflicts. */
export class Merges {
  readonly #open = new OpenMerges()
  readonly #ports: MergePorts

  constructor(ports: MergePorts) {
    this.#ports = ports
  }

  async merge(
    core: Core,
    live: LiveSession,
    source: MergeSource,
    request: ParsedMerge,
  ): Promise<MergeResult> {
    // A later merge compares with this state, or with one that both sides have before it. So a collection keeps it, although
    // only the step of this merge will refer to it.
    const states = source.seq !== undefined && { states: { sessionId: source.sessionId, seqs: [source.seq] } }
    using _ = core.pins.pin({ roots: [source.root], ...states })
    const state: GraphState =
      source.seq === undefined
        ? { baseline: source.fingerprint }
        : { sessionId: source.sessionId, seq: source.seq }
    return await this.#onTarget(core, live, request, async (target) => {
      const merger = new FileMerger(core)
      const base = await mergeBaseOf(core, { sessionId: live.id, seq: target.seq }, state, merger)
      if (base === undefined) return nothingMerged
      using held = core.pins.pin({ roots: [base] })
      void held
      if (!(await differs(core, base, source.root))) return nothingMerged
      const trees = { base, ours: target.root, theirs: source.root }
      const computed = await this.#compute(core, trees, request, merger)
      const details = { sourceSessionId: source.sessionId }
      return this.#finish(core, live, target, computed, request, {
        type: eventTypes.mergeSession,
        details,
        step: async () => ({
          ...(source.seq !== undefined && { merged: [source.sessionId, source.seq] as const }),
          ...(source.seq === undefined && { rebased: [source.fingerprint, source.fingerprint] as const }),
          root: await core.roots.save(source.root),
          tree: source.root,
        }),
      })
    })
  }

  /** Moves a session onto a revision of its source. */
  async rebase(core: Core, live: LiveSession, request: ParsedRebase): Promise<MergeResult> {
    const { revision } = live.record.baseline
    if (revision === undefined) {
      throw new EngineError(
        'SOURCE_NOT_FOUND',
        'the session did not start from a revision of a source, so it has no newer revision; use session.merge() instead',
        { sessionId: live.id },
      )
    }
    const [baseline, root] = await this.#ports.revision(core, revision.sourceId, request.revisionId)
    using _ = core.pins.pin({ roots: [root] })
    return await this.#onTarget(core, live, request, (target) =>
      this.#rebaseOnto(core, live, target, { baseline, root }, request),
    )
  }

  async #rebaseOnto(
    core: Core,
    live: LiveSession,
    target: Target,
    { baseline, root }: NewBase,
    request: ParsedRebase,
  ): Promise<MergeResult> {
    const before = live.record.baseline
    const ancestry = new Ancestry(core)
    const state = { sessionId: live.id, seq: target.seq }
    const ours = await core.pins.whileReading(ancestry.ancestorsOf(state))
    const ofState = await ancestry.baseOf(state)
    const isOnBase = await ancestry.isOnBase(ours, ofState, before)
    const isSameRevision = before.revision?.revisionId === baseline.revision?.revisionId
    if (isSameRevision && isOnBase) return nothingMerged
    // An older one than that of the session, if the session was restored to a state before a rebase.
    const newest = ours.newestBaseline((ofState ?? before).fingerprint)
    const older = isOnBase ? before.fingerprint : newest
    const tips = await branchTipsOf(core, live)
    using writes = core.pins.pin({ writesSince: 'now' })
    void writes
    const merger = new FileMerger(core)
    const search = { live, tips, onto: { baseline, root }, ours, isOnBase, newest, merger }
    const base = await rebaseBaseOf(core, ancestry, search, this.#ports.ownCommits)
    const trees = { base, ours: target.root, theirs: root }
    using _ = core.pins.pin({ roots: [base] })
    const computed = await this.#compute(core, trees, request, merger)
    const revisionId = baseline.revision?.revisionId ?? ''
    return await this.#finish(core, live, target, computed, request, {
      type: eventTypes.rebaseSession,
      details: { sourceId: baseline.revision?.sourceId ?? '', revisionId },
      step: async () => ({
        rebased: [older, baseline.fingerprint] as const,
        before,
        root: await core.roots.save(root),
        tree: root,
      }),
      rebase: {
        baseline,
        root,
        before: {
          baseline: before,
          tips: Array.from(tips, ([branch, { commitId }]) => [branch, commitId] as const),
        },
      },
    })
  }

  async list(core: Core, live: LiveSession, request: PageRequest): Promise<ConflictPage> {
    const pageSize = parsePageSize(request.pageSize)
    const listing = `conflicts ${live.id}`
    const after = parsePageToken(listing, request.pageToken)
    const open = await whenLoaded(() => this.#open.get(core, live))
    const conflicts: MergeConflict[] = []
    if (open === undefined) return { conflicts, nextPageToken: '' }
    using _ = core.pins.pin({ roots: Object.values(open.trees) as Dir[] })
    const slice = new TimeSlice(core.environment)
    for (const conflict of open.record.conflicts) {
      if (slice.over) await slice.next()
      if (after !== undefined && compareUtf8(conflict.path, after) <= 0) continue
      if (conflicts.length === pageSize)
        return {
          conflicts,
          nextPageToken: encodePageToken(listing, present(conflicts.at(-1), 'the last conflict').path),
        }
      conflicts.push(await describeConflict(core, open.trees, conflict))
    }
    return { conflicts, nextPageToken: '' }
  }

  async read(core: Core, live: LiveSession, path: string): Promise<ConflictContents> {
    const open = await whenLoaded(() => this.#open.get(core, live))
    const conflict = open?.record.conflicts.find((one) => one.path === path)
    if (open === undefined || conflict === undefined) throw conflictNotFound(path)
    using _ = core.pins.pin({ roots: Object.values(open.trees) as Dir[] })
    return await readConflict(core, open.trees, conflict)
  }

  /** Resolves one conflict, as one event. */
  resolve(core: Core, live: LiveSession, resolution: ParsedResolution): Promise<Remaining> {
    return this.#resolve(core, live, [resolution.path], resolution)
  }

  /** Resolves all conflicts, as one event. */
  resolveAll(core: Core, live: LiveSession, use: ConflictSideName): Promise<Remaining> {
    return this.#resolve(core, live, undefined, { use, content: undefined })
  }

  #resolve(
    core: Core,
    live: LiveSession,
    paths: readonly string[] | undefined,
    way: Omit<ParsedResolution, 'path'>,
  ): Promise<Remaining> {
    return this.#whenStill(core, live, async (target) => {
      const open = await whenLoaded(() => this.#open.get(core, live))
      if (open === undefined) {
        if (paths === undefined) return { conflictCount: 0 }
        throw conflictNotFound(paths[0] ?? '')
      }
      using _ = core.pins.pin({ roots: [target.root, ...(Object.values(open.trees) as Dir[])] })
      const isResolved = (path: string): boolean => paths === undefined || paths.includes(path)
      const resolved = open.record.conflicts.filter(({ path }) => isResolved(path))
      if (paths !== undefined && resolved.length === 0) throw conflictNotFound(paths[0] ?? '')
      const merger = new FileMerger(core)
      const result = await resolutionOf(core, { open, target: target.root, conflicts: resolved, way, merger })
      const { redo } = await effectsOf(core, target.root, result)
      using pinned = core.pins.pin({ writesSince: 'now' })
      void pinned
      const blobs = await storedAhead(core, merger.blobs)
      const left = open.record.conflicts.filter(({ path }) => !isResolved(path))
      const next = left.length === 0 ? undefined : { ...open, record: { ...open.record, conflicts: left } }
      await this.#commit(core, live, target, () => ({
        type: eventTypes.resolveConflicts,
        details: {
          conflictCount: left.length,
          paths: resolved.map(({ path }) => path).slice(0, limits.pathsInDetails),
        },
        redo,
        blobs,
        session: withConflicts(live.record, left.length),
        ...recordOf(live, next),
        open: next,
      }))
      return { conflictCount: left.length }
    })
  }

  /** Restores the state before a merge with conflicts, as one event. Later changes are undone too. */
  abort(core: Core, live: LiveSession): Promise<void> {
    return mutate(core, live, () => {
      const open = this.#open.get(core, live)
      if (open === undefined) {
        throw new EngineError(
          'CONFLICT_NOT_FOUND',
          'the session has no merge with unresolved conflicts, so there is nothing to abort; restore a checkpoint to undo a finished merge',
          { sessionId: live.id },
        )
      }
      const { seq, rebased } = open.record
      const baseline = rebased?.baseline
      const session = withConflicts({ ...live.record, ...(baseline && { baseline }) }, 0)
      const tips = new Map((rebased?.tips ?? []).map(([branch, commitId]) => [branch, { commitId }]))
      const committed = record(core, live, {
        type: eventTypes.abortMerge,
        details: { mergeEventId: eventIdOf(live.id, seq) },
        redo: [['R', seq - 1]],
        root: open.trees.ours,
        step: { restored: seq - 1, ...(baseline && { before: live.record.baseline }) },
        session,
        put: Array.from(tips, ([branch, tip]) => [keys.branchTip(live.id, branch), tip] as const),
        del: [keys.merge(live.id)],
      })
      if (baseline !== undefined) {
        live.baseline = core.roots.load(baseline.root)
        // A fork may read the tips before this commit is stored.
        live.branchTips = tips
      }
      this.#open.set(core, live, undefined)
      return committed
    })
  }

  async #compute(core: Core, trees: MergeTrees, request: ParsedMerge, merger: FileMerger): Promise<Computed> {
    const result = await mergeTrees(core, trees, { ...request, isVirtual: false }, merger)
    checkConflicts(result.conflicts)
    const effects = await effectsOf(core, trees.ours, result)
    return { trees, effects, conflicts: result.conflicts, blobs: merger.blobs }
  }

  async #finish(
    core: Core,
    live: LiveSession,
    target: Target,
    { trees, effects, conflicts, blobs: made }: Computed,
    { dryRun, names }: ParsedMerge,
    event: {
      readonly type: NewEvent['type']
      readonly details: object
      readonly step: () => Promise<Omit<LineageStep, 'seq'>>
      readonly rebase?: NewBase & { readonly before: NonNullable<MergeRecord['rebased']> }
    },
  ): Promise<MergeResult> {
    const result = {
      merged: true,
      changes: mergedChanges(effects.changes),
      changeCount: effects.changes.length,
      conflicts: [] as MergeConflict[],
    }
    for (const conflict of conflicts) result.conflicts.push(await describeConflict(core, trees, conflict))
    if (dryRun) return { ...result, eventId: '' }
    using _ = core.pins.pin({ writesSince: 'now' })
    const step = await event.step()
    const seq = target.seq + 1
    const { rebase } = event
    const open: OpenMerge | undefined =
      conflicts.length === 0
        ? undefined
        : {
            trees,
            record: {
              seq,
              names,
              base: await core.roots.save(trees.base),
              ours: await core.roots.save(trees.ours),
              theirs: await core.roots.save(trees.theirs),
              conflicts: conflicts.map(({ isFatal: _isFatal, ...conflict }) => conflict),
              ...(rebase && { rebased: rebase.before }),
            },
          }
    const blobs = await storedAhead(core, made)
    const ahead = { redo: effects.redo, at: eventTime(core, live) }
    const prepared = await prepareEffects(core, target.root, ahead)
    using after = prepared && core.pins.pin({ roots: [prepared.after] })
    void after
    await this.#commit(core, live, target, () => {
      const { put = [], del = [] } = recordOf(live, open)
      const kept = rebase === undefined ? live.record : withBaseline(live.record, rebase.baseline)
      const isSettled = open === undefined && rebase === undefined
      if (step.merged !== undefined) core.pins.referred(...step.merged)
      return {
        type: event.type,
        details: {
          ...event.details,
          conflictCount: conflicts.length,
          operationCount: effects.changes.length,
          paths: effects.changes.slice(0, limits.pathsInDetails).map(({ path }) => path),
        },
        redo: effects.redo,
        prepared,
        blobs,
        step,
        session: isSettled ? undefined : withConflicts(kept, conflicts.length),
        put,
        del: [...del, ...(rebase?.before.tips ?? []).map(([branch]) => keys.branchTip(live.id, branch))],
        open,
        baseRoot: rebase?.root,
      }
    })
    return { ...result, eventId: eventIdOf(live.id, seq) }
  }

  /** Commits an event if the session is still in the state from which it was computed. */
  #commit(
    core: Core,
    live: LiveSession,
    target: Target,
    make: () => NewEvent & { readonly open: OpenMerge | undefined; readonly baseRoot?: Dir | undefined },
  ): Promise<void> {
    return mutate(core, live, () => {
      if (live.version !== target.version) throw new Moved('the session changed during the merge')
      this.#open.prepare(core, live)
      const { open, baseRoot, ...event } = make()
      const committed = record(core, live, event)
      this.#open.set(core, live, open)
      if (baseRoot !== undefined) {
        live.baseline = baseRoot
        live.branchTips = noTips
      }
      return committed
    })
  }

  async #onTarget(
    core: Core,
    live: LiveSession,
    { expectedEventId }: ParsedMerge,
    merge: (target: Target) => Promise<MergeResult>,
  ): Promise<MergeResult> {
    const expected =
      expectedEventId === undefined ? undefined : parseEventId('expectedEventId', live.id, expectedEventId)
    return this.#whenStill(core, live, async (target) => {
      checkNoConflicts(live.record)
      if (expected !== undefined && expected !== target.seq) throw targetMoved(live, expectedEventId)
      return merge(target)
    })
  }

  /** Computes and commits a change from the current state. Repeats this if the session changes meanwhile. */
  async #whenStill<T>(core: Core, live: LiveSession, work: (target: Target) => Promise<T>): Promise<T> {
    for (let attempt = 0; attempt < limits.mergeAttempts; attempt++) {
      if (live.tail !== undefined) await live.tail
      const target = { seq: live.seq, version: live.version, root: live.tree.freeze() }
      using _ = core.pins.pin({ roots: [target.root] })
      try {
        return await work(target)
      } catch (error) {
        if (!(error instanceof Moved)) throw error
      }
    }
    throw targetMoved(live, undefined)
  }
}

/** The number of conflicts that are still unresolved. */
export interface Remaining {
  /** 0: the merge is complete. */
  conflictCount: number
}

async function differs(core: Core, base: Dir, theirs: Dir): Promise<boolean> {
  for await (const _ of treeChanges(core, base, theirs)) return true
  return false
}

/** Blobs for the event's commit. Larger ones are stored before it. */
async function storedAhead(core: Core, blobs: readonly BlobRef[]): Promise<readonly BlobRef[]> {
  const staged = new StagedBlobs(blobs, core)
  await whenLoaded(() => staged.blobs())
  return staged.toCommit()
}

function recordOf(live: LiveSession, open: OpenMerge | undefined): Pick<StoreCommit, 'put' | 'del'> {
  const key = keys.merge(live.id)
  if (open !== undefined) return { put: [[key, open.record]] }
  return live.record.conflicts === undefined ? {} : { del: [key] }
}
