import { keys } from '../storage/keys.js'
import { scanAll } from '../storage/scan-all.js'
import { branchTipKind, type BranchTip, type BranchTips } from '../records/branch-tip.js'
import type { Core } from './core.js'
import type { LiveSession } from './table/live.js'

/**
 * Reads the tips of a session once, and then keeps them in memory with it. On a shared store, they are always in memory,
 * because they were read together with the state.
 */
export async function branchTipsOf(core: Core, live: LiveSession): Promise<BranchTips> {
  while (live.branchTips === undefined) {
    const { setTips } = live
    // Otherwise a tip that is about to be stored would be missing.
    await live.acknowledged.catch(() => undefined)
    const tips = new Map<string, BranchTip>()
    for await (const page of scanAll(core, keys.branchTips(live.id)))
      for (const record of page) tips.set(...parseTip(live.id, record))
    if (setTips === live.setTips) live.branchTips ??= tips
  }
  return live.branchTips
}

/** A branch and its tip, from their record. */
export function parseTip(
  sessionId: string,
  [key, json]: readonly [key: string, json: string],
): [branch: string, tip: BranchTip] {
  return [key.slice(keys.branchTips(sessionId).length), branchTipKind.parse(json, key)]
}

/** The tips of a session without commits. */
export const noTips: BranchTips = new Map()

/** Changes the tip of a branch, if the tips are in memory. Forks share the map, so it is replaced. */
export function setTip(live: LiveSession, branch: string, tip: BranchTip): void {
  live.setTips++
  if (live.branchTips !== undefined) live.branchTips = new Map(live.branchTips).set(branch, tip)
}

/**
 * The tips that a fork of a state builds on, for its commit. A tip without a number belongs to the newest state. Commits
 * may have been made since that state was read.
 */
export function tipsForFork(
  tips: BranchTips,
  { seq, isEarlier }: { readonly seq: number; readonly isEarlier: boolean },
): BranchTips {
  const kept = new Map<string, BranchTip>()
  for (const [branch, tip] of tips)
    if (tip.seq === undefined ? !isEarlier : tip.seq <= seq)
      kept.set(branch, { commitId: tip.commitId, seq: 0 })
  return kept
}
