import { someIn } from '../../base/ascending.js'
/** What of a session's history can stay as it is: worked out from facts alone. */

/** The remaining events and snapshots of a session. */
export interface LeftHistory {
  /** The last of the events from the first on that follow each other, link for link. */
  readonly last: number
  /** The newest event that any event or snapshot shows. */
  readonly newest: number
  /** Events up to `last` whose redo is not kept; ascending. */
  readonly gaps: readonly number[]
  /** Restores up to `last`, ascending. */
  readonly restores: readonly (readonly [seq: number, target: number])[]
  /** Snapshots that are whole, ascending. */
  readonly snapshots: readonly number[]
  /** States that a caller can name, or that others build on. */
  readonly named: readonly number[]
}

/** How to reach the newest state, and each named one, from the remains. */
export interface Reach {
  /** All of them, as they are. */
  readonly whole: boolean
  /** Whether any is replayed from where the session started. */
  readonly fromStart: boolean
}

export function reachOf(history: LeftHistory): Reach {
  const { last, newest, gaps, restores, snapshots, named } = history
  const wanted = [last, ...named]
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

/** The newest snapshot at or before a state; below 0 where there is none. */
function baseOf(snapshots: readonly number[], state: number): number {
  return snapshots.findLast((seq) => seq <= state) ?? -1
}
