import type { LineageRecord } from '../../records/lineage.js'
import type { Dir } from '../../tree/node.js'

/** A step of a session in memory. `tree` is the tree of the record's root. */
export interface LineageStep extends LineageRecord {
  readonly tree?: Dir
}
