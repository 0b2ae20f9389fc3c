import { limits } from '../base/limits.js'
import type { Redo } from '../records/event.js'
import type { Dir } from '../tree/node.js'
import { Tree } from '../tree/tree.js'
import type { Core } from './core.js'
import { encodeRedo, type EncodedRedo } from './history/chain.js'
import { applyInTurns } from './history/replay.js'
import type { LiveSession } from './table/live.js'

/** The effects of a large event, applied to the state before it and encoded, so that its commit takes one short turn. */
export interface PreparedEffects {
  /** The time of the event. */
  readonly at: number
  /** The tree after the event. The caller pins it. */
  readonly after: Dir
  /** The rough size of the nodes that this made, in bytes. */
  readonly madeBytes: number
  /** Undefined if memory is the only copy. */
  readonly encoded: EncodedRedo | undefined
}

/**
 * Applies and encodes many effects in many turns of the event loop. Undefined if there are few. The event must be
 * committed only if the session is still in the state `before`.
 */
export async function prepareEffects(
  core: Core,
  before: Dir,
  { redo, at }: { readonly redo: readonly Redo[]; readonly at: number },
): Promise<PreparedEffects | undefined> {
  if (redo.length <= limits.effectsPerTurn) return undefined
  const tree = new Tree(before, core.loader)
  await applyInTurns(core, tree, redo, at)
  const encoded = await core.journal.kept(() => encodeRedo(redo))
  return { at, after: tree.freeze(), madeBytes: tree.madeBytes, encoded }
}

/** Whether a session can take prepared effects. References to its files must follow each effect. */
export function canTake({ fileReferences }: LiveSession): boolean {
  return fileReferences === undefined || fileReferences.size === 0
}
