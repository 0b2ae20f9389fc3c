import { someIn } from '../../base/ascending.js'
/** Decides, from facts alone, which parts of a session's history can stay unchanged. */

/** The remaining events and snapshots of a session. */
export interface LeftHistory {
  /** The last event of the intact chain: from the first event on, each is linked to the one before it. */
  readonly last: number
  /** The newest event that is known to have existed, from events, snapshots and `lostEvents`. */
  readonly newest: number
  /** Events up to `last` without stored redo, in ascending order. */
  readonly gaps: readonly number[]
  /** Restores up to `last`, in ascending order. */
  readonly restores: readonly (readonly [seq: number, target: number])[]
  /** Complete snapshots, in ascending order. */
  readonly snapshots: readonly number[]
  /** States that a checkpoint refers to, or that others build on. */
  readonly referenced: readonly number[]
}

/** How the newest state and each referenced state can be reached from the remains. */
export interface Reach {
  /** Whether all of these states can be reached unchanged. */
  readonly whole: boolean
  /** Whether at least one of them is replayed from the start of the session. */
  readonly fromStart: boolean
}

export function reachOf(history: LeftHistory): Reach {
  const { last, newest, gaps, restores, snapshots, referenced } = history
  const wanted = [last, ...referenced]
  // A replay goes through a restore unless a snapshot lies between it and the wanted state.
  for (const [seq, target] of restores.toReversed())
    if (wanted.some((state) => state >= seq && baseOf(snapshots, state) < seq)) wanted.push(target)
  return {
    whole:
      newest <= last &&
      wanted.every((state) => state <= last && !someIn(gaps, baseOf(snapshots, state) + 1, state + 1)),
    fromStart: wanted.some((state) => baseOf(snapshots, state) < 0),
  }
}

/** The newest snapshot at or before a state; negative if there is none. */
function baseOf(snapshots: readonly number[], state: number): number {
  return snapshots.findLast((seq) => seq <= state) ?? -1
}
