import {
  isCount,
  isListOf,
  isOneOf,
  isOptional,
  isText,
  isTupleOf,
  isWith,
  type Checks,
} from '../base/checks.js'
import { baselineChecks, baselineReferences, type Baseline } from './baseline.js'
import { keyPrefixes } from '../storage/keys.js'
import type { EncodedNode } from '../tree/encoded.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/** Two changes that exclude each other, one on each side of a merge. */
export const ConflictKind = {
  /** Both sides changed the same lines, or a binary file. */
  CONTENT: 'content',
  /**
   * One side deleted the file, and the other changed it; or a directory, and its bits or attributes. Or one side moved the
   * file to a path where the other has something else, and the other left it unchanged.
   */
  DELETE_MODIFY: 'delete/modify',
  /** Both sides added the path, with different content. */
  ADD_ADD: 'add/add',
  /** Both sides renamed the file, to different paths. */
  RENAME_RENAME: 'rename/rename',
  /** One side renamed the file, and the other deleted it. */
  RENAME_DELETE: 'rename/delete',
  /** One side has a file where the other one has a directory, or a submodule where the other one has files. */
  FILE_DIRECTORY: 'file/directory',
  /** Both sides set the permission bits, to different values. */
  MODE: 'mode',
  /** Both sides changed the target of a symlink, or only one side made the file a symlink. */
  SYMLINK: 'symlink',
  /** Both sides set an extended attribute, to different values. */
  ATTRIBUTE: 'attribute',
} as const
/** One of the values of {@link ConflictKind}. */
export type ConflictKind = (typeof ConflictKind)[keyof typeof ConflictKind]

/** The names of the three sides, for markers in files. */
export interface SideNames {
  /** The name of the common ancestor, such as `base`. */
  readonly base: string
  /** The name of the session that is changed. */
  readonly ours: string
  /** The name of the session that is merged into it. */
  readonly theirs: string
}

/** An unresolved conflict. A side that does not have the file has no path. */
export interface ConflictRecord {
  readonly path: string
  readonly kind: ConflictKind
  readonly base?: string
  readonly ours?: string
  readonly theirs?: string
}

/** The merge of a session that still has conflicts. */
export interface MergeRecord {
  /** The event of the merge. */
  readonly seq: number
  readonly names: SideNames
  readonly base: EncodedNode
  readonly ours: EncodedNode
  readonly theirs: EncodedNode
  /** In order of their paths. */
  readonly conflicts: readonly ConflictRecord[]
  /** The base of the session before a rebase, and the tips of its branches; absent for a merge. */
  readonly rebased?: {
    readonly baseline: Baseline
    readonly tips: readonly (readonly [branchName: string, commitId: string])[]
  }
}

const conflictChecks: Checks<ConflictRecord> = {
  path: isText,
  kind: isOneOf(ConflictKind),
  base: isOptional(isText),
  ours: isOptional(isText),
  theirs: isOptional(isText),
}

export const mergeKind = new RecordKind<MergeRecord>({
  name: 'merge',
  prefix: keyPrefixes.merge,
  scope: 'session',
  bundle: { absent: 'a session from a bundle has the merged files, and no open conflicts' },
  checks: {
    seq: isCount,
    names: isWith<SideNames>({ base: isText, ours: isText, theirs: isText }),
    base: isRoot,
    ours: isRoot,
    theirs: isRoot,
    conflicts: isListOf(isWith(conflictChecks)),
    rebased: isOptional(
      isWith<NonNullable<MergeRecord['rebased']>>({
        baseline: isWith(baselineChecks),
        tips: isListOf(isTupleOf(isText, isText)),
      }),
    ),
  },
  references: ({ base, ours, theirs, rebased }, _key, to) => {
    for (const root of [base, ours, theirs]) to.root(root)
    if (rebased !== undefined) baselineReferences(rebased.baseline, to)
  },
})
