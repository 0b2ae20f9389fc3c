import type { Environment } from '../../base/environment.js'
import type { TimeSlice } from '../../base/cooperative.js'
import type { Store } from '../../storage/store.js'
import type { ContentIds } from '../../tree/content-id.js'
import type { RootStore } from '../../tree/roots.js'
import type { ReplayContext } from './replay.js'
import type { TreeMender } from './tree.js'
import type { RepairWriter } from './writer.js'

/** An object that a repair left out, or stored in a changed form. */
export interface Dropped {
  /** The kind of object, followed by its id, key, label or hash. */
  readonly object: string
  /** The session that had the object, if it belonged to one. */
  readonly sessionId?: string
  /** The path that is lost or changed in that object, if it is only a part. */
  readonly path?: string
  /** What happened to the object. */
  readonly message: string
}

/** State that the parts of a repair share. */
export interface RepairContext {
  /** The damaged store. */
  readonly from: Store
  readonly writer: RepairWriter
  readonly mender: TreeMender
  readonly roots: RootStore
  readonly contentIds: ContentIds
  readonly replay: ReplayContext
  readonly environment: Environment
  readonly slice: TimeSlice
  readonly hasBlob: (hash: string, length: number) => boolean
  /** For each session that once existed, the newest event that it had. */
  readonly lostEvents: ReadonlyMap<string, number>
  readonly drop: (dropped: Dropped) => void
}
