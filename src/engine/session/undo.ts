import { present } from '../base/present.js'
import { invalid } from '../base/errors.js'
import { Fault } from '../base/fault.js'
import { given, parseFlag } from '../base/input.js'
import { limits } from '../base/limits.js'
import { Shape } from '../base/shape.js'
import { eventTypes } from '../records/event.js'
import type { EncodedNode } from '../tree/encoded.js'
import type { Dir } from '../tree/node.js'
import { ReplacedPin } from '../tree/pins.js'
import type { Core } from './core.js'
import { eventIdOf } from './history/event-ids.js'
import { EventWalk } from './history/event-walk.js'
import { namedRoot } from './history/replay.js'
import { needsSnapshot } from './history/snapshot.js'
import { redoItems, undoItems, type RedoItem, type StepDetails, type UndoItem } from './history/undo-stack.js'
import { checkNoConflicts } from './status.js'
import { mutate, record, unchanged } from './mutation-queue.js'
import { noPreview, previewOf, type Preview } from './preview.js'
import type { LiveSession } from './table/live.js'

/** The request of `session.undo` and `session.redo`. */
export interface UndoRequest {
  /** The number of changes, or of groups; 1 by default, at most 10,000. */
  readonly count?: number
  /**
   * `'event'`, the default: each change of files counts. `'group'`: changes one after the other of one group count
   * as one.
   */
  readonly by?: 'event' | 'group'
  /** true: changes nothing, and lists the paths that would change; false by default. */
  readonly dryRun?: boolean
  /** true: lists the changed paths, which takes as long as a diff; false by default. */
  readonly listChanges?: boolean
}

/** The result of an undo or redo. */
export interface UndoResult extends Preview {
  /** The number of changes; fewer than requested if there were not as many, and 0 if there were none. */
  readonly count: number
  /** The id of the new event; '' if nothing was changed. */
  readonly eventId: string
}

const undoShape = new Shape<UndoRequest>({ count: true, by: true, dryRun: true, listChanges: true })

export function parseUndo(request: UndoRequest): Required<UndoRequest> {
  const { count = 1, by = 'event', dryRun, listChanges } = undoShape.read(request)
  if (!Number.isSafeInteger(count) || count < 1 || count > limits.undoCount)
    throw invalid('count', `must be a whole number from 1 to ${limits.undoCount}; it is ${given(count)}`)
  if (by !== 'event' && by !== 'group') throw invalid('by', `must be 'event' or 'group'; it is ${given(by)}`)
  return {
    count,
    by,
    dryRun: parseFlag('dryRun', dryRun, false),
    listChanges: parseFlag('listChanges', listChanges, false),
  }
}

export type Direction = 'undo' | 'redo'

/** The state that an undo or redo leads to, found for one newest event. */
interface Step {
  readonly version: number | string
  readonly details: StepDetails
  readonly root: Dir
  readonly preview: Preview
  /** Stored, for a snapshot. */
  readonly snapshotRoot?: EncodedNode
}

/** Undoes the newest changes of files, or redoes undone ones, as one event. */
export async function undoOrRedo(
  core: Core,
  live: LiveSession,
  direction: Direction,
  request: Required<UndoRequest>,
): Promise<UndoResult> {
  using _ = core.pins.pin({ writesSince: 'now', ...(!request.dryRun && { revisits: live.id }) })
  using pinned = new ReplacedPin()
  let found: Step | undefined
  return await mutate(core, live, () => {
    checkNoConflicts(live.record)
    if (found?.version !== live.version)
      throw new Fault(async () => {
        found = await findStep(core, live, { direction, request, pinned })
      })
    const { details, root, preview } = found
    const { count, position } = details
    if (count === 0 || request.dryRun)
      return unchanged(core, live).then(() => ({ count, eventId: '', ...preview }))
    const step = found
    if (step.snapshotRoot === undefined && needsSnapshot(core))
      throw new Fault(async () => {
        found = { ...step, snapshotRoot: await core.roots.save(root) }
      })
    const { snapshotRoot } = step
    const type = eventTypes[direction]
    const committed = record(core, live, { type, details, redo: [['R', position]], root, snapshotRoot })
    const eventId = eventIdOf(live.id, live.seq)
    return committed.then(() => ({ count, eventId, ...preview }))
  })
}

interface Search {
  readonly direction: Direction
  readonly request: Required<UndoRequest>
  /** Protects the state until its event is stored. */
  readonly pinned: ReplacedPin
}

async function findStep(
  core: Core,
  live: LiveSession,
  { direction, request, pinned }: Search,
): Promise<Step> {
  await core.pins.historyRemoved(live.id)
  // Queued events are read from the store.
  await live.acknowledged
  const { seq, version } = live
  const walk = new EventWalk(core, live)
  const details =
    direction === 'undo' ? await undoDetails(walk, seq, request) : await redoDetails(walk, seq, request)
  const before = live.tree.freeze()
  if (details.count === 0) return { version, details, root: before, preview: noPreview() }
  const root = await namedRoot(core, live, details.position)
  pinned.hold(core.pins.pin({ roots: [root] }))
  const isListed = request.dryRun || request.listChanges
  return { version, details, root, preview: isListed ? await previewOf(core, before, root) : noPreview() }
}

async function undoDetails(
  walk: EventWalk,
  seq: number,
  request: Required<UndoRequest>,
): Promise<StepDetails> {
  const { count, last } = await take(undoItems(walk, seq), request)
  return { count, position: last === undefined ? seq : last.seq - 1 }
}

async function redoDetails(
  walk: EventWalk,
  seq: number,
  request: Required<UndoRequest>,
): Promise<StepDetails> {
  const { count, last } = await take<RedoItem>(redoItems(walk, seq), request)
  if (last === undefined) return { count, position: seq }
  return { count, position: last.seq, redoEvent: last.undo, redoSkip: last.index + 1 }
}

/** Counts the changes of a request, and finds the last of them. */
async function take<Item extends UndoItem>(
  items: AsyncIterable<Item>,
  request: Required<UndoRequest>,
): Promise<{ readonly count: number; readonly last: Item | undefined }> {
  let count = 0
  let units = 0
  let last: Item | undefined
  for await (const item of items) {
    const isSame =
      request.by === 'group' && last !== undefined && item.group !== undefined && item.group === last.group
    if (!isSame && ++units > request.count) break
    count++
    last = item
  }
  return { count, last: count === 0 ? undefined : present(last, 'the last change') }
}
