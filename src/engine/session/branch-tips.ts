import { keys } from '../storage/keys.js'
import { scanAll } from '../storage/scan-all.js'
import { branchTipKind, type BranchTip } from '../records/branch-tip.js'
import type { Core } from './core.js'
import type { LiveSession } from './table/live.js'

/** The last commits of a session by branch. */
export type BranchTips = ReadonlyMap<string, BranchTip>

/** Reads the tips of a session once, and then keeps them in memory with it. */
export async function branchTipsOf(core: Core, live: LiveSession): Promise<BranchTips> {
  while (live.branchTips === undefined) {
    const { epoch } = live
    const tips = new Map<string, BranchTip>()
    const prefix = keys.branchTips(live.id)
    for await (const page of scanAll(core, prefix))
      for (const [key, json] of page) tips.set(key.slice(prefix.length), branchTipKind.parse(json, key))
    // Otherwise another engine has changed the session meanwhile.
    if (epoch === live.epoch) live.branchTips ??= tips
  }
  return live.branchTips
}

/** The tips of a session without commits. */
export const noTips: BranchTips = new Map()

/** Changes the tip of a branch, if the tips are in memory. Forks share the map, so it is replaced. */
export function setTip(live: LiveSession, branch: string, tip: BranchTip): void {
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
