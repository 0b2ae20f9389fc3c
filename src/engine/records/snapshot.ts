import { isCount, isNumber, isOptional, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import type { EncodedNode } from '../tree/encoded.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/** A cached state: the tree after event `seq`, which happened at `at` and has the link `chain`. */
export interface SnapshotRecord {
  readonly seq: number
  readonly at: number
  readonly chain: string
  readonly root: EncodedNode
  /** The redo of events up to this one is not kept: this state is where replay starts. */
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
