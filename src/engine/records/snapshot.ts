import { isCount, isNumber, isOptional, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import type { EncodedNode } from '../tree/encoded.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/** A cached state: the tree after event `seq`. `at` is the time of that event, and `chain` is its link. */
export interface SnapshotRecord {
  readonly seq: number
  readonly at: number
  readonly chain: string
  readonly root: EncodedNode
  /** true: the redo of the events up to this one was deleted, so replay starts from this state. */
  readonly pruned?: true
}

export const snapshotKind = new RecordKind<SnapshotRecord>({
  name: 'snapshot',
  prefix: keyPrefixes.snapshot,
  scope: 'session',
  bundle: { absent: 'a bundle has states in a form of its own', madeAnew: true },
  checks: {
    seq: isCount,
    at: isNumber,
    chain: isText,
    root: isRoot,
    pruned: isOptional((value) => value === true),
  },
  references: ({ root }, _key, to) => to.root(root),
})
