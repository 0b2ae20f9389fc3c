import type { Core } from '../core.js'
import type { TreeCounts } from '../../records/baseline.js'
import { FileNode, Symlink, type Dir, type Node } from '../../tree/node.js'
import { treeChanges } from '../tree-changes.js'
import { emptyDirectory } from '../tree-builder.js'

/** A tree that was counted before. */
export interface CountedTree {
  readonly root: Dir
  /** Absent in records of earlier versions. */
  readonly counts?: TreeCounts | undefined
}

/**
 * Counts the files and bytes of a frozen tree. If `before` has counts, only the changes since `before` are
 * read.
 */
export async function countTree(core: Core, root: Dir, before?: CountedTree): Promise<TreeCounts> {
  const start = before?.counts === undefined ? undefined : { root: before.root, ...before.counts }
  let { files, bytes } = start ?? { files: 0, bytes: 0 }
  for await (const change of treeChanges(core, start?.root ?? emptyDirectory(core), root)) {
    files += filesIn(change.after) - filesIn(change.before)
    bytes += bytesIn(change.after) - bytesIn(change.before)
  }
  return { files, bytes }
}

function filesIn(node: Node | undefined): number {
  return node instanceof FileNode || node instanceof Symlink ? 1 : 0
}

function bytesIn(node: Node | undefined): number {
  return node instanceof FileNode ? node.size : 0
}
