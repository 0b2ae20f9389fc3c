import { invalid } from '../base/errors.js'
import { Fault } from '../base/fault.js'
import { parseFlag, readList } from '../base/input.js'
import { limits } from '../base/limits.js'
import { parsePath } from '../base/path.js'
import { Shape } from '../base/shape.js'
import { eventTypes, type Redo } from '../records/event.js'
import type { EncodedNode } from '../tree/encoded.js'
import type { Dir } from '../tree/node.js'
import { ReplacedPin } from '../tree/pins.js'
import { checkpointFields, restoreCheckpoint, type CheckpointReference } from './checkpoints.js'
import { reading, type Core } from './core.js'
import { restoredChanges, restoredEffects } from './edits/restored.js'
import { needsSnapshot } from './history/snapshot.js'
import { mutate, record, unchanged } from './mutation-queue.js'
import { collectPreview, noPreview, type Preview } from './preview.js'
import type { SessionInfo } from './sessions.js'
import { namesUnkeptState, positionedState, stateIdOf, stateNameShape, type StateName } from './states.js'
import { withoutMerge } from './status.js'
import type { LiveSession } from './table/live.js'

/** The request of `session.restore`: a checkpoint, or another state as `from`. */
export interface RestoreRequest extends CheckpointReference {
  /** The state to restore: after an event, at a time, of a checkpoint, or the base. */
  readonly from?: StateName
  /**
   * Absolute paths of files, directories and symlinks, up to 1,000: only these are restored, with everything below
   * them. A path that the earlier state does not have is removed. Absent: the whole tree.
   */
  readonly paths?: readonly string[]
  /** true: changes nothing, and lists the paths that would change; false by default. */
  readonly dryRun?: boolean
  /** true: lists the changed paths, which takes as long as a diff; false by default. */
  readonly listChanges?: boolean
}

/** The session after a restore, and with `listChanges` or `dryRun` the changes. */
export interface RestoreResult extends SessionInfo, Preview {}

/** A checked restore. */
export interface ParsedRestore {
  readonly from: StateName
  readonly paths: readonly string[] | undefined
  readonly dryRun: boolean
  readonly listChanges: boolean
  /** Whether the request names a checkpoint, and nothing else. */
  readonly isOfCheckpoint: boolean
}

const restoreShape = new Shape<RestoreRequest>({
  ...checkpointFields,
  from: true,
  paths: true,
  dryRun: true,
  listChanges: true,
})

export function parseRestore(request: RestoreRequest): ParsedRestore {
  const { from, paths, dryRun, listChanges, checkpointId, checkpointLabel } = restoreShape.read(request)
  const checkpoint: StateName = {
    ...(checkpointId !== undefined && { checkpointId }),
    ...(checkpointLabel !== undefined && { checkpointLabel }),
  }
  if (from !== undefined && Object.keys(checkpoint).length > 0)
    throw invalid('from', 'cannot be combined with checkpointId or checkpointLabel: pass one of them')
  const state = stateNameShape.readPart(from ?? checkpoint, 'from')
  if (Object.keys(state).length === 0)
    throw from === undefined
      ? invalid(
          'checkpointId',
          'pass one of checkpointId and checkpointLabel, such as { checkpointLabel: "before" }',
        )
      : invalid('from', 'must name a state, such as { checkpointLabel: "before" }')
  return {
    from: state,
    paths: paths === undefined ? undefined : parsePaths(paths),
    dryRun: parseFlag('dryRun', dryRun, false),
    listChanges: parseFlag('listChanges', listChanges, false),
    isOfCheckpoint: [from, paths, dryRun, listChanges].every((option) => option === undefined),
  }
}

function parsePaths(paths: readonly string[]): readonly string[] {
  const list = readList('paths', paths, limits.restorePaths, 'paths')
  if (list.length === 0) throw invalid('paths', 'must not be empty; without it, the whole tree is restored')
  for (const path of list) parsePath(path as string)
  return list as readonly string[]
}

/** The action of a restore. Only the result of restoring a whole checkpoint does not describe files. */
export function restoreActionOf(request: ParsedRestore): 'restoreCheckpoint' | 'restoreState' {
  return request.isOfCheckpoint ? 'restoreCheckpoint' : 'restoreState'
}

/** What a restore does, found for one newest event. */
interface Found {
  readonly version: number | string
  readonly after: Dir
  readonly stateId: string
  readonly redo: readonly Redo[]
  readonly preview: Preview
  /** The state after it, stored for a snapshot. */
  readonly snapshotRoot?: EncodedNode
}

/** Restores a state, or some paths of it, as one event. With `dryRun`, only lists the changes. */
export async function restoreState(core: Core, live: LiveSession, request: ParsedRestore): Promise<Preview> {
  const { from, paths, dryRun } = request
  if (request.isOfCheckpoint) {
    await restoreCheckpoint(core, live, from)
    return noPreview()
  }
  const revisits = !dryRun && namesUnkeptState(from)
  using _ = core.pins.pin({ writesSince: 'now', ...(revisits && { revisits: live.id }) })
  using pinned = new ReplacedPin()
  let found: Found | undefined
  return await mutate(core, live, () => {
    if (found?.version !== live.version)
      throw new Fault(async () => {
        found = await findRestore(core, live, request, pinned)
      })
    const { after, redo, stateId, preview } = found
    if (dryRun || redo.length === 0) return unchanged(core, live).then(() => preview)
    const restore = found
    if (redo[0]?.[0] === 'R' && restore.snapshotRoot === undefined && needsSnapshot(core))
      throw new Fault(async () => {
        found = { ...restore, snapshotRoot: await core.roots.save(after) }
      })
    const committed = record(core, live, {
      type: eventTypes.restoreState,
      details: { eventId: stateId, ...(paths !== undefined && { paths }) },
      redo,
      root: after,
      snapshotRoot: restore.snapshotRoot,
      ...(paths === undefined && withoutMerge(live)),
    })
    return committed.then(() => preview)
  })
}

async function findRestore(
  core: Core,
  live: LiveSession,
  request: ParsedRestore,
  pinned: ReplacedPin,
): Promise<Found> {
  const { from, paths } = request
  if (namesUnkeptState(from)) await core.pins.historyRemoved(live.id)
  const before = live.tree.freeze()
  const { version } = live
  const state = await positionedState(core, live, from)
  const after = state.root
  // Contents of the earlier state may not be referenced otherwise until the event is stored.
  pinned.hold(core.pins.pin({ roots: [after] }))
  const position = state.seq ?? (live.record.base === undefined ? 0 : undefined)
  const stateId = stateIdOf(live, state)
  const restored = { before, after, paths }
  // For a dry run too: it fails as the restore would.
  const redo: readonly Redo[] =
    paths === undefined && position !== undefined ? [['R', position]] : await restoredEffects(core, restored)
  const isListed = request.dryRun || request.listChanges
  const preview = isListed
    ? await reading(core, [before, after], () => collectPreview(restoredChanges(core, restored)))
    : noPreview()
  return { version, after, stateId, redo, preview }
}
