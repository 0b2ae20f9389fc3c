import { itemAt } from '../../base/present.js'
import { firstAtLeast, someIn } from '../../base/ascending.js'

/** Which states of a session are kept as snapshots, and how far back its redo is: worked out from facts alone. */

/** The stored parts of a session's history. */
export interface HistoryFacts {
  /** The newest event. */
  readonly last: number
  /** States that can be named, of checkpoints, or are still read. */
  readonly named: readonly number[]
  /** Ascending. */
  readonly snapshots: readonly number[]
  /** Up to which event redo is not kept; 0: it is all there, as far as it ever was. */
  readonly prunedTo: number
  /** Restores after that, ascending. */
  readonly restores: readonly (readonly [seq: number, target: number])[]
  /** Runs of events after that without redo, such as those of a bundle; ascending. */
  readonly gaps: readonly (readonly [from: number, to: number])[]
  /** Whether it starts from a state of another session; nothing says how long that can be reached. */
  readonly hasBase: boolean
}

export interface HistoryPlan {
  /** States to be stored as snapshots, ascending, before anything else. */
  readonly write: readonly number[]
  /** Snapshots that nothing needs. */
  readonly drop: readonly number[]
  /** The redo of events up to this one may go: no state that can be named is before it. 0: none. */
  readonly pruneTo: number
}

/**
 * A state is reached from the newest snapshot at or before it, by redo alone. To make this hold for each state that
 * can be named, these snapshots are kept: one at the oldest of them, one where a restore leads back past it, those
 * right after redo that is not kept, and otherwise one in `spacing` events, to shorten replay.
 */
export function planHistory(
  facts: HistoryFacts,
  { keepRedo, spacing }: { readonly keepRedo: boolean; readonly spacing: number },
): HistoryPlan {
  const { last, named, snapshots, prunedTo, restores, gaps, hasBase } = facts
  const oldest = named.reduce((least, seq) => Math.min(least, seq), last)
  const pruneTo = keepRedo ? prunedTo : Math.max(prunedTo, oldest)
  const stored = new Set(snapshots)
  // Data before a snapshot may be gone, if an interrupted collection took it from this or another session.
  const first = keepRedo ? (snapshots.findLast((seq) => seq <= oldest) ?? pruneTo) : pruneTo
  const needsFirst = first > 0 || hasBase || stored.has(0)
  const { reached, firsts } = walk([last, ...named], restores, first)
  const wanted = new Set([
    ...(needsFirst ? [first] : []),
    ...(stored.has(pruneTo) ? [pruneTo] : []),
    ...firsts,
  ])
  const write = [...wanted].filter((seq) => !stored.has(seq)).sort((a, b) => a - b)
  const drop: number[] = []
  const all = [...new Set([...snapshots, ...write])].sort((a, b) => a - b)
  const gapEnds = gaps.map(([, to]) => to)
  const hasGap = (from: number, to: number): boolean => {
    const gap = gaps[firstAtLeast(gapEnds, from)]
    return gap !== undefined && gap[0] <= to
  }
  let kept = 0
  for (const [index, seq] of all.entries()) {
    const next = all[index + 1] ?? Number.POSITIVE_INFINITY
    const isNeeded =
      wanted.has(seq) ||
      (seq >= first &&
        someIn(reached, seq, next) &&
        (hasGap(kept + 1, seq) || seq - kept >= spacing || index === all.length - 1))
    if (isNeeded) kept = seq
    else drop.push(seq)
  }
  return { write, drop, pruneTo }
}

/**
 * The states that replay comes through at a restore's target, from the given ones back; and of those after a restore
 * that leads back past `first`, the earliest each.
 */
function walk(
  states: readonly number[],
  restores: HistoryFacts['restores'],
  first: number,
): { readonly reached: readonly number[]; readonly firsts: readonly number[] } {
  const reached = new Set<number>()
  const firsts = new Map<number, number>()
  const unseen = states.filter((seq) => seq >= first)
  for (let state = unseen.pop(); state !== undefined; state = unseen.pop()) {
    if (reached.has(state)) continue
    reached.add(state)
    const restore = restores[countUpTo(restores, state) - 1]
    if (restore === undefined || restore[0] <= first) continue
    const [seq, target] = restore
    if (target >= first) unseen.push(target)
    else firsts.set(seq, Math.min(firsts.get(seq) ?? state, state))
  }
  return { reached: [...reached].sort((a, b) => a - b), firsts: [...firsts.values()] }
}

/** How many restores there are up to an event, itself included. */
function countUpTo(restores: HistoryFacts['restores'], seq: number): number {
  let low = 0
  let high = restores.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (itemAt(restores, middle)[0] <= seq) low = middle + 1
    else high = middle
  }
  return low
}
