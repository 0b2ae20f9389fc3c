import { firstWhere, someIn } from '../../base/ascending.js'

/**
 * This module decides which states of a session keep a snapshot, and how far back its redo is kept. It
 * decides from facts alone, and reads and writes nothing.
 */

/** The stored parts of a session's history. */
export interface HistoryFacts {
  /** The newest event. */
  readonly last: number
  /** The states of checkpoints, and states that readers or forks still need. */
  readonly referenced: readonly number[]
  /** Ascending. */
  readonly snapshots: readonly number[]
  /** The last event whose redo was pruned. 0: no redo was pruned. */
  readonly prunedTo: number
  /** Restores after `prunedTo`, ascending. */
  readonly restores: readonly (readonly [seq: number, target: number])[]
  /** Runs of events after `prunedTo` that have no redo, such as events of a bundle; ascending. */
  readonly gaps: readonly (readonly [from: number, to: number])[]
  /**
   * Whether the session starts from a state of another session. It is unknown how long that state can be
   * reached.
   */
  readonly hasBase: boolean
}

export interface HistoryPlan {
  /** States to store as snapshots, ascending. They must be stored before anything is deleted. */
  readonly write: readonly number[]
  /** Snapshots that nothing needs. */
  readonly drop: readonly number[]
  /** The redo of events up to this one can be deleted, because no referenced state is before it. 0: none. */
  readonly pruneTo: number
}

/**
 * A state is reached from the newest snapshot at or before it, by redo alone. To make this hold for each referenced
 * state, these snapshots are kept: one at the oldest of them, one where a restore leads back past it, those
 * right after redo that is not kept, and otherwise one in `spacing` events, to shorten replay.
 */
export function planHistory(
  facts: HistoryFacts,
  { keepRedo, spacing }: { readonly keepRedo: boolean; readonly spacing: number },
): HistoryPlan {
  const { last, referenced, snapshots, prunedTo, restores, gaps, hasBase } = facts
  const oldest = referenced.reduce((least, seq) => Math.min(least, seq), last)
  const pruneTo = keepRedo ? prunedTo : Math.max(prunedTo, oldest)
  const stored = new Set(snapshots)
  // Data before a snapshot may be missing, because an interrupted collection already deleted it from this or
  // another session.
  const first = keepRedo ? Math.max(snapshots.findLast((seq) => seq <= oldest) ?? 0, pruneTo) : pruneTo
  const needsFirst = first > 0 || hasBase || stored.has(0)
  const { reached, firsts } = walk([last, ...referenced], { restores, gaps, snapshots, first })
  const wanted = new Set([
    ...(needsFirst ? [first] : []),
    ...(stored.has(pruneTo) ? [pruneTo] : []),
    ...firsts,
  ])
  const write = [...wanted].filter((seq) => !stored.has(seq)).sort((a, b) => a - b)
  const drop: number[] = []
  const all = [...new Set([...snapshots, ...write])].sort((a, b) => a - b)
  let kept = 0
  for (const [index, seq] of all.entries()) {
    const next = all[index + 1] ?? Number.POSITIVE_INFINITY
    const isNeeded =
      wanted.has(seq) ||
      (seq >= first &&
        someIn(reached, seq, next) &&
        (hasGap(gaps, kept + 1, seq) || seq - kept >= spacing || index === all.length - 1))
    if (isNeeded) kept = seq
    else drop.push(seq)
  }
  return { write, drop, pruneTo }
}

/**
 * Follows replay back from the given states. `reached` contains these states and the targets of restores that
 * replay continues from. `firsts` contains, for each restore that leads back past `first` or to a gap, the
 * earliest reached state after it.
 *
 * A restore may lead back over a second one. For example, a checkpoint is at 11, an undo at 12 leads to 9, and a collection
 * stored state 13 instead of 12. Meanwhile an undo at 14 restored 12, and stored its own snapshot. State 12 can no longer be
 * read then, so the restore at 14 counts as the one that leads back. A collection that was interrupted while it removed
 * redo leaves a gap, which counts like the redo before `first`.
 */
function walk(
  states: readonly number[],
  facts: Pick<HistoryFacts, 'restores' | 'gaps' | 'snapshots'> & { readonly first: number },
): { readonly reached: readonly number[]; readonly firsts: readonly number[] } {
  const { restores, gaps, first } = facts
  const kept = [...facts.snapshots, ...states].sort((a, b) => a - b)
  const reached = new Set<number>()
  const firsts = new Map<number, number>()
  const unseen = states.filter((seq) => seq >= first)
  for (let state = unseen.pop(); state !== undefined; state = unseen.pop()) {
    if (reached.has(state)) continue
    reached.add(state)
    const restore = restores[countUpTo(restores, state) - 1]
    if (restore === undefined || restore[0] <= first) continue
    const [seq, target] = restore
    if (target >= first && !leadsBack(target, { restores, gaps, kept, first })) unseen.push(target)
    else firsts.set(seq, Math.min(firsts.get(seq) ?? state, state))
  }
  return { reached: [...reached].sort((a, b) => a - b), firsts: [...firsts.values()] }
}

/** Whether replay of a state meets a gap or goes back past `first`, with no snapshot or needed state in between. */
function leadsBack(
  state: number,
  facts: Pick<HistoryFacts, 'restores' | 'gaps'> & {
    readonly kept: readonly number[]
    readonly first: number
  },
): boolean {
  const { restores, gaps, kept, first } = facts
  for (let at = state; ;) {
    const [seq, target] = restores[countUpTo(restores, at) - 1] ?? [first, first]
    const nearest = kept[firstWhere(kept, (one) => one > at) - 1] ?? first
    if (hasGap(gaps, Math.max(nearest, seq, first) + 1, at)) return true
    if (nearest >= seq || seq <= first) return false
    if (target < first) return true
    at = target
  }
}

/** Whether a gap has any of these events. */
function hasGap(gaps: HistoryFacts['gaps'], from: number, to: number): boolean {
  const gap = gaps[firstWhere(gaps, ([, end]) => end >= from)]
  return gap !== undefined && gap[0] <= to
}

/** The number of restores up to and including an event. */
function countUpTo(restores: HistoryFacts['restores'], seq: number): number {
  return firstWhere(restores, ([restore]) => restore > seq)
}
