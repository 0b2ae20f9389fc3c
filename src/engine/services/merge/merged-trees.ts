import type { ConflictRecord } from '../../records/merge.js'
import type { Dir, FileNode, Symlink } from '../../tree/node.js'
import type { MergedFile } from './merge-files.js'

/** A file or symlink. */
export type File = FileNode | Symlink

/** A file with its path on one side. */
export interface Placed {
  readonly path: string
  readonly file: File
}

export interface FoundConflict extends ConflictRecord {
  /** Whether the policy of its path is to fail. */
  readonly isFatal: boolean
}

/** The result of a merge as nodes by path. Paths that are in neither map stay as they are in ours. */
export interface MergedTrees {
  readonly files: ReadonlyMap<string, File | undefined>
  readonly directories: ReadonlyMap<string, Dir | undefined>
  /** Files that theirs moved: from their path in ours. */
  readonly moves: ReadonlyMap<string, string>
  /** In order of their paths. */
  readonly conflicts: readonly FoundConflict[]
}

/** The findings of earlier passes of a merge. */
export interface MergePasses {
  /** Files that only one side deleted, and whose deletion is a conflict. */
  readonly undeleted: ReadonlySet<string>
  /** Files that one side changed, and that do not follow their move by the other side. */
  readonly unfollowed: ReadonlySet<string>
  /** The files that both sides changed, by all their paths. A merger runs once for each. */
  readonly mergedFiles: Map<string, MergedFile>
}
