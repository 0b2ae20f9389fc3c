import { limits } from '../base/limits.js'
import type { TreeChange } from '../tree/diff.js'
import type { Dir } from '../tree/node.js'
import { reading, type Core } from './core.js'
import { ChangeList, describeChange, treeChanges, type Change } from './tree-changes.js'

/** The changed paths of a call, if it lists them. */
export interface Preview {
  /**
   * With `listChanges`, the changed paths; with `dryRun`, the paths that would change. In the order of the manifest.
   * Otherwise empty.
   */
  readonly changes: Change[]
  /** false: there are more than 10,000 paths, or 8 MiB of them, and only the first ones are listed. */
  readonly isComplete: boolean
}

/** For a call that does not list changes: a new object, since callers own results. */
export function noPreview(): Preview {
  return { changes: [], isComplete: true }
}

/** The changes from one tree to another, up to a bound. */
export function previewOf(core: Core, before: Dir, after: Dir): Promise<Preview> {
  return reading(core, [before, after], () => collectPreview(treeChanges(core, before, after)))
}

/** Describes changes, up to a bound. */
export async function collectPreview(found: AsyncIterable<TreeChange>): Promise<Preview> {
  const list = new ChangeList(limits.previewChanges)
  const { changes } = list
  for await (const change of found)
    if (!list.add(describeChange(change))) return { changes, isComplete: false }
  return { changes, isComplete: true }
}
