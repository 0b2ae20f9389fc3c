import { invalid } from '../base/errors.js'
import { parseFlag } from '../base/input.js'
import { Shape } from '../base/shape.js'
import type { Dir } from '../tree/node.js'
import { checkpointFields, findCheckpoint, type CheckpointReference } from './checkpoints.js'
import type { Core } from './core.js'
import { Diff, type PinnedRoot } from './diffs/diff.js'
import { touch } from './table/activity.js'
import type { LiveSession } from './table/live.js'
import { openUsed, usedNow } from './table/expiry.js'
import { rootAt } from './history/replay.js'

/** Refers to one state: a session's newest, one of its checkpoints, or its base. */
export interface StateReference extends CheckpointReference {
  /** The id of the session. */
  readonly sessionId: string
  /** true: the base that the session and all its relatives by fork started from. false by default. */
  readonly base?: boolean
}

/** Whether a request refers to an earlier state of a session, not its newest or its base. */
export function refersToCheckpoint({ checkpointId, checkpointLabel }: CheckpointReference): boolean {
  return checkpointId !== undefined || checkpointLabel !== undefined
}

export const stateFields = { ...checkpointFields, base: true } as const

export const stateShape = new Shape<StateReference>({ sessionId: true, ...stateFields })

async function findState(core: Core, reference: StateReference): Promise<PinnedRoot> {
  // If the session is in memory, nothing is awaited, so the state is that at the time of the call.
  const live = usedNow(core, reference.sessionId) ?? (await openUsed(core, reference.sessionId))
  touch(core, live)
  const root = await stateOf(core, live, reference)
  return { root, pin: core.pins.pin({ roots: [root], owner: root }) }
}

/** A state of a session; without a reference, that of the call. */
export async function stateOf(
  core: Core,
  live: LiveSession,
  reference: Omit<StateReference, 'sessionId'>,
): Promise<Dir> {
  if (parseFlag('base', reference.base, false)) {
    if (refersToCheckpoint(reference))
      throw invalid('base', 'cannot be combined with a checkpoint: pass one of them')
    return live.baseline
  }
  if (!refersToCheckpoint(reference)) return live.tree.freeze()
  const checkpoint = await findCheckpoint(core, live, reference)
  return rootAt(core, live, checkpoint.seq)
}

/** The changes between two states, as they are now. An error in a reference appears when the diff is read. */
export function diffOf(core: Core, from: () => StateReference, to: () => StateReference): Diff {
  const before = (async () => findState(core, from()))()
  const after = (async () => findState(core, to()))()
  return new Diff(core, Promise.all([before, after]))
}
