import { firstWhere } from '../../base/ascending.js'

/** A restore, by its event, and the event whose state it leads to. */
export type Restore = readonly [seq: number, target: number]

/**
 * The targets of restores that are the newest common state of two referenced ones, so that a merge of these two compares
 * with it. For example, a fork started from the state 5, and then the session was restored to 3 at 8. A merge of the fork
 * then compares with 3. Without the fork and any other reference to 4, 5, 6 or 7, none does.
 *
 * The history of a session is a tree: a restore begins a new branch at its target. `restores` are in ascending order.
 */
export function branchingTargets(
  restores: readonly Restore[],
  referenced: readonly number[],
): ReadonlySet<number> {
  /** The newest state of each branch that is referenced, or from which a branch with such a state begins. */
  const newest: (number | undefined)[] = []
  const note = (branch: number, seq: number): void => {
    newest[branch] = Math.max(newest[branch] ?? 0, seq)
  }
  for (const seq of referenced) note(branchOf(restores, seq), seq)
  /** The number of branches with references that begin at a state. */
  const begun = new Map<number, number>()
  for (let branch = restores.length; branch > 0; branch--) {
    const target = restores[branch - 1]?.[1]
    if (target === undefined || newest[branch] === undefined) continue
    begun.set(target, (begun.get(target) ?? 0) + 1)
    note(branchOf(restores, target), target)
  }
  const targets = new Set<number>()
  for (const [target, count] of begun)
    if (count > 1 || (newest[branchOf(restores, target)] ?? 0) > target) targets.add(target)
  return targets
}

/** The number of the branch with a state. The first event of branch n is the n-th restore. */
function branchOf(restores: readonly Restore[], seq: number): number {
  return firstWhere(restores, ([restore]) => restore > seq)
}
