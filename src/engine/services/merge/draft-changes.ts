import { EngineError } from '../../base/errors.js'
import { parseGlob } from '../../base/glob.js'
import { limits } from '../../base/limits.js'
import { eventTypes } from '../../records/event.js'
import type { Core } from '../../session/core.js'
import { eventIdOf } from '../../session/history/event-ids.js'
import { mutate, record, unchanged } from '../../session/mutation-queue.js'
import { mergedChanges, type Change } from '../../session/tree-changes.js'
import type { LiveSession } from '../../session/table/live.js'
import type { Dir } from '../../tree/node.js'
import { FileMerger } from './merge-files.js'
import { PathRules, type Merger, type MergePolicy } from './merge-policies.js'
import { effectsOf, type MergeEffects } from './merge-redo.js'
import { mergeTrees, type MergeRules } from './merge-trees.js'

/** The result of committing a draft. */
export interface DraftResult {
  /** The `eventId` of the event; '' if the draft changed nothing. */
  readonly eventId: string
  /** The changed paths, in order, at most 10,000. */
  readonly changes: Change[]
  /** The number of all changed paths. */
  readonly changeCount: number
}

/** The state that a draft started from, and its state now. Both are frozen. */
export interface DraftTrees {
  readonly base: Dir
  readonly draft: Dir
}

const everywhere = parseGlob('**', 'glob')

/** A path that both sides changed is a conflict, even if the lines are different ones. */
const strict: MergeRules = {
  policies: new PathRules<MergePolicy>([[everywhere, 'fail']]),
  mergers: new PathRules<Merger>([[everywhere, () => undefined]]),
  names: { base: 'base', ours: 'ours', theirs: 'theirs' },
  isVirtual: false,
}

/** The session changed after its state was read. */
const moved = Symbol('moved')

/**
 * Applies the changes of a draft to its session as one event, or none of them.
 *
 * @throws {EngineError} MERGE_CONFLICT when the session has changed one of the paths meanwhile.
 * @throws {EngineError} MERGE_TARGET_MOVED when the session kept changing.
 */
export async function applyDraft(
  core: Core,
  live: LiveSession,
  { base, draft }: DraftTrees,
): Promise<DraftResult> {
  using _ = core.pins.pin({ roots: [base, draft] })
  for (let attempt = 0; attempt < limits.mergeAttempts; attempt++) {
    if (live.tail !== undefined) await live.tail
    const target = { version: live.version, root: live.tree.freeze() }
    using held = core.pins.pin({ roots: [target.root] })
    void held
    const effects = await effectsOfDraft(core, { base, ours: target.root, theirs: draft })
    const result = await commitDraft(core, live, target.version, effects)
    if (result !== moved) return result
  }
  throw new EngineError(
    'MERGE_TARGET_MOVED',
    'the session kept changing while the draft was committed; commit it while there are fewer changes',
    { sessionId: live.id, eventId: eventIdOf(live.id, live.seq) },
  )
}

async function effectsOfDraft(
  core: Core,
  trees: { readonly base: Dir; readonly ours: Dir; readonly theirs: Dir },
): Promise<MergeEffects> {
  const result = await mergeTrees(core, trees, strict, new FileMerger(core))
  if (result.conflicts.length > 0) throw conflict(result.conflicts.map(({ path }) => path))
  return effectsOf(core, trees.ours, result)
}

function commitDraft(
  core: Core,
  live: LiveSession,
  version: number | string,
  { changes, redo }: MergeEffects,
): Promise<DraftResult | typeof moved> {
  return mutate<DraftResult | typeof moved>(core, live, () => {
    if (live.version !== version) return Promise.resolve(moved)
    const result = {
      changes: mergedChanges(changes),
      changeCount: changes.length,
    }
    if (redo.length === 0) return unchanged(core, live).then(() => ({ ...result, eventId: '' }))
    const paths = changes.slice(0, limits.pathsInDetails).map(({ path }) => path)
    const details = { operationCount: changes.length, paths }
    const committed = record(core, live, { type: eventTypes.applyBatch, details, redo })
    const eventId = eventIdOf(live.id, live.seq)
    return committed.then(() => ({ ...result, eventId }))
  })
}

function conflict(all: readonly string[]): EngineError {
  const paths = all.slice(0, limits.pathsInDetails)
  const shown = paths.slice(0, 3).join(', ')
  const more = all.length > 3 ? ` and ${all.length - 3} more` : ''
  return new EngineError(
    'MERGE_CONFLICT',
    `the session changed ${shown}${more} after the draft started, and the draft changes the same: nothing was committed; start a new draft and repeat its changes`,
    { paths: JSON.stringify(paths), conflictCount: String(all.length) },
  )
}
