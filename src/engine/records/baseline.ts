import { isCount, isOptional, isText, isWith, type Checks } from '../base/checks.js'
import type { EncodedNode } from '../tree/encoded.js'
import type { RecordReferences } from './record-kind.js'
import { isRoot } from './tree-root.js'

/**
 * The number of names of files and symlinks in a tree, and the bytes of these files. A hard-linked file counts once for
 * each of its names.
 */
export interface TreeCounts {
  readonly files: number
  readonly bytes: number
}

/** The tree that a session and all its forks started from. It never changes. */
export interface Baseline {
  /** The manifest hash of `root`, hex. */
  readonly fingerprint: string
  /** The tree, as a directory entry. */
  readonly root: EncodedNode
  /** The size of the tree; absent in records of earlier versions. */
  readonly counts?: TreeCounts
  /** Present when the baseline is a revision of a source. */
  readonly revision?: {
    readonly sourceId: string
    readonly revisionId: string
    /** The git commit and tree of the revision, hex; absent for an empty repository. */
    readonly git?: {
      readonly commitId: string
      readonly treeId: string
      /**
       * The tree of that commit. Present if the revision is a state that was promoted on top of the commit.
       */
      readonly root?: EncodedNode
    }
  }
}

export const baselineChecks: Checks<Baseline> = {
  fingerprint: isText,
  root: isRoot,
  counts: isOptional(isWith<TreeCounts>({ files: isCount, bytes: isCount })),
  revision: isOptional(
    isWith<NonNullable<Baseline['revision']>>({
      sourceId: isText,
      revisionId: isText,
      git: isOptional(
        isWith<NonNullable<NonNullable<Baseline['revision']>['git']>>({
          commitId: isText,
          treeId: isText,
          root: isOptional(isRoot),
        }),
      ),
    }),
  ),
}

/** Reports the trees of a baseline: its own tree, and the tree of its git commit if the two differ. */
export function baselineReferences({ root, revision }: Baseline, to: RecordReferences): void {
  to.root(root)
  if (revision?.git?.root !== undefined) to.root(revision.git.root)
}
