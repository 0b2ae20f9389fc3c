import { isCount, isOptional, isText, isTupleOf, isWith } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import type { EncodedNode } from '../tree/encoded.js'
import { baselineChecks, baselineReferences, type Baseline } from './baseline.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/**
 * A step in the ancestry of a session that its events alone do not show quickly: the state that a fork started
 * from (`seq` is 0), or a restore, merge or rebase, by the number of its event.
 */
export interface LineageRecord {
  readonly seq: number
  /** The event after which the restored state was. Events between it and this one are no ancestors. */
  readonly restored?: number
  /** The state that was merged. */
  readonly merged?: readonly [sessionId: string, seq: number]
  /** The fingerprints of the bases before and after a rebase. */
  readonly rebased?: readonly [from: string, to: string]
  /** The baseline before a rebase, or before it was aborted, for forks of earlier states. */
  readonly before?: Baseline
  /**
   * The tree of the merged state, of the new base, or of the state that the fork started from. A restore has the tree of the
   * restored state if a merge may start from it, once a collection has run.
   */
  readonly root?: EncodedNode
}

export const lineageKind = new RecordKind<LineageRecord>({
  name: 'lineage',
  prefix: keyPrefixes.lineage,
  scope: 'session',
  bundle: { absent: 'the other sessions of a merge are not in the bundle' },
  checks: {
    seq: isCount,
    restored: isOptional(isCount),
    merged: isOptional(isTupleOf(isText, isCount)),
    rebased: isOptional(isTupleOf(isText, isText)),
    before: isOptional(isWith(baselineChecks)),
    root: isOptional(isRoot),
  },
  references: ({ root, before }, _key, to) => {
    if (root !== undefined) to.root(root)
    if (before !== undefined) baselineReferences(before, to)
  },
})
