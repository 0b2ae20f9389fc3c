import { TimeSlice } from '../base/cooperative.js'
import { jsonBytes } from '../base/json-bytes.js'
import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import { TreeDiff, type TreeChange } from '../tree/diff.js'
import { kindOf, type Dir, type NodeKind } from '../tree/node.js'
import type { Core } from './core.js'

/** One path on which two states differ. */
export interface Change {
  /** Absolute path, such as `/src/a.ts`. */
  readonly path: string
  /**
   * `added`: only the second state has the path. `removed`: only the first one. `modified`: its content,
   * target or mode differs.
   */
  readonly change: 'added' | 'removed' | 'modified'
  /** `'file'`, `'directory'` or `'symlink'`, in the second state if it has the path. */
  readonly kind: NodeKind
}

/** The paths that differ between two frozen trees. */
export async function* treeChanges(core: Core, before: Dir, after: Dir): AsyncGenerator<TreeChange> {
  const slice = new TimeSlice(core.environment)
  using _ = core.pins.pin({ roots: [before, after] })
  for (const step of new TreeDiff(core.contentIds, core.loader).compare(before, after)) {
    if (step instanceof Promise) await step
    else if (step !== undefined) yield step
    if (slice.over) await slice.next()
  }
}

export function describeChange({ path, before, after }: TreeChange): Change {
  const change = before === undefined ? 'added' : after === undefined ? 'removed' : 'modified'
  return { path, change, kind: kindOf(present(after ?? before, 'the changed node')) }
}

/** A list of changes with a bound of their number, and one of the bytes of their paths. */
export class ChangeList {
  readonly changes: Change[] = []
  readonly #most: number
  #bytes = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Adds a change. Returns false, and adds nothing, if the list is full. */
  add(change: Change): boolean {
    this.#bytes += jsonBytes(change.path)
    if (this.changes.length === this.#most || this.#bytes > limits.listedPathBytes) return false
    this.changes.push(change)
    return true
  }
}

/** The changes that a merge lists. */
export function mergedChanges(changes: readonly TreeChange[]): Change[] {
  const list = new ChangeList(limits.mergeListedPaths)
  for (const change of changes) if (!list.add(describeChange(change))) break
  return list.changes
}
