import type { Dir } from '../../tree/node.js'
import type { Tree } from '../../tree/tree.js'
import type { Follower } from '../history/feed.js'
import type { FileReference } from '../file-references.js'
import type { LineageStep } from '../history/lineage-step.js'
import type { BranchTips } from '../../records/branch-tip.js'
import type { CheckpointRecord } from '../../records/checkpoint.js'
import type { SessionRecord } from '../../records/session.js'
import type { SharedSession } from '../sharing/shared-session.js'

const nothingPending = Promise.resolve()

/** The approximate memory of a session without its tree, in bytes. */
const ownBytes = 2048

/** The handles' reference to the session in memory; empty after its eviction. */
export class SessionSlot {
  readonly id: string
  #live: LiveSession | undefined
  /**
   * Set after synchronous use. The slot then keeps the session after eviction, for synchronous loads of its
   * tree.
   */
  synchronous = false

  constructor(live: LiveSession) {
    this.id = live.id
    this.#live = live
  }

  get live(): LiveSession | undefined {
    return this.#live
  }

  set live(live: LiveSession | undefined) {
    this.#live = live
  }
}

/** The base of a session at the time of a state. A rebase replaces both. */
export interface BaseAtState {
  readonly record: SessionRecord
  /** The root of `record.baseline`. */
  readonly baseline: Dir
}

/**
 * A session in memory, in its newest state. Events up to `seq` are applied, but the last ones may not be
 * stored yet.
 */
export class LiveSession {
  readonly id: string
  readonly tenantKey: string
  readonly slot: SessionSlot
  record: SessionRecord
  /** The root of `record.baseline`, shared with all forks. A rebase replaces both. */
  baseline: Dir
  readonly tree: Tree
  seq: number
  /** The link of the newest event; '' before the first, and always on stores that are not durable. */
  chain: string
  /** The time of the newest event. It decreases only if the clock was far ahead and has been corrected. */
  lastEventAt: number
  lastActivityAt: number
  /** The last activity that is stored. */
  activityStoredAt: number
  /** The newest event that a stored snapshot covers. */
  snapshotSeq: number
  /** The size of the nodes that the newest snapshot of this process stored, in characters. */
  snapshotSize = 0
  /** Settles, without an error, when the current snapshot is stored or has failed. */
  snapshotting: Promise<void> | undefined = undefined
  /**
   * The approximate number of events of the session's ancestors that are replayed when the session is opened,
   * while it has no snapshot.
   */
  inheritedEvents: number
  /** The position of its last use in the order of all uses, as its engine's residency counts them. */
  usedAt = 0
  /** Commits that are not acknowledged yet. */
  pending = 0
  /** The key of cached records in a `SessionIndex`. Each eviction replaces it, which drops these records. */
  epoch: object
  /** Present if other engines may change the session too. */
  shared: SharedSession | undefined = undefined
  /** Set after eviction. Operations that still use the session call this to return it to memory. */
  revive: (() => void) | undefined = undefined
  /** Roots of earlier states by seq, bounded; replay finds the others. */
  pins: Map<number, Dir> | undefined
  /** The approximate size of the nodes that only `pins` holds, and the tree's total at the last pin. */
  pinnedBytes = 0
  pinnedAt = 0
  /** The tree's total at its last snapshot. The store has these nodes. */
  storedBytes = 0
  /** The checkpoints. Undefined until they are loaded. */
  checkpoints: CheckpointIndex | undefined
  /** Restores, merges and rebases, oldest first. Undefined until they are loaded. */
  lineage: LineageStep[] | undefined = undefined
  /** The number of steps that were added to the lineage in this process, so that a read notices those that it may lack. */
  addedSteps = 0
  /** The last commits by branch. Undefined until they are loaded. */
  branchTips: BranchTips | undefined = undefined
  /** The number of tips that were set in this process, so that a read notices those that it may lack. */
  setTips = 0
  /** The state that a fork started from, if memory is the only copy of it. */
  origin: ForkOrigin | undefined = undefined
  /** The newest event's acknowledgement, for which operations without changes wait. */
  acknowledged: Promise<void> = nothingPending
  /** References to files that are open or locked. */
  fileReferences: Set<FileReference> | undefined
  /** Receivers of stored events, each with the seq after which it starts. */
  followers: Map<Follower, number> | undefined
  /** Settles after the last mutation that waits for a load. Later mutations queue up after it. */
  tail: Promise<void> | undefined
  /**
   * Set when a write failed, the session was deleted or its engine was closed. The other fields are then no
   * longer valid.
   */
  discarded: 'failed' | 'deleted' | 'closed' | undefined = undefined

  constructor(
    tenantKey: string,
    record: SessionRecord,
    baseline: Dir,
    tree: Tree,
    state: {
      seq: number
      at: number
      readAt?: number
      chain: string
      snapshotSeq: number
      inheritedEvents?: number
    },
  ) {
    this.id = record.id
    this.tenantKey = tenantKey
    this.slot = new SessionSlot(this)
    this.epoch = this.slot
    this.inheritedEvents = state.inheritedEvents ?? 0
    this.record = record
    this.baseline = baseline
    this.tree = tree
    this.seq = state.seq
    this.chain = state.chain
    this.lastEventAt = state.at
    this.lastActivityAt = Math.max(state.at, state.readAt ?? 0)
    this.activityStoredAt = this.lastActivityAt
    this.snapshotSeq = state.snapshotSeq
    this.pins = undefined
    this.checkpoints = undefined
    this.fileReferences = undefined
    this.followers = undefined
    this.tail = undefined
  }

  /**
   * Identifies its state for code that computes a change from a state and waits meanwhile. On a shared store, the event
   * of another engine may get the number of one that is not stored yet.
   */
  get version(): number | string {
    return this.shared === undefined ? this.seq : this.chain
  }

  /** Events that are replayed when it is opened from the store as it is now. */
  get unsnapshotted(): number {
    return this.seq - this.snapshotSeq + (this.snapshotSeq === 0 ? this.inheritedEvents : 0)
  }

  /** The approximate size of nodes made in the tree since its last snapshot, in bytes. */
  get unstoredBytes(): number {
    return this.tree.madeBytes - this.storedBytes
  }

  /**
   * The approximate size of the data that only memory has, in bytes. Records of services are not included.
   */
  get bytes(): number {
    return ownBytes + this.unstoredBytes + this.pinnedBytes + (this.checkpoints?.bytes ?? 0)
  }

  /** Whether nothing requires it to stay in memory. */
  get idle(): boolean {
    return (
      this.pending === 0 &&
      this.tail === undefined &&
      this.snapshotting === undefined &&
      this.discarded === undefined &&
      (this.fileReferences === undefined || this.fileReferences.size === 0) &&
      (this.followers === undefined || this.followers.size === 0) &&
      this.shared?.isBusy !== true
    )
  }
}

/** The state that a fork started from, and the one that the session of that state started from. They may be deleted. */
export interface ForkOrigin {
  readonly base: readonly [sessionId: string, seq: number]
  readonly root: Dir
  readonly before: ForkOrigin | undefined
}

/** The approximate memory of a checkpoint, in bytes. */
const checkpointBytes = 400

/** The approximate memory of the metadata of a checkpoint, in bytes. */
function metadataBytesOf({ metadata }: CheckpointRecord): number {
  return metadata === undefined ? 0 : JSON.stringify(metadata).length * 8
}

/** The checkpoints of one session in order of creation. */
export class CheckpointIndex {
  // Most sessions have no checkpoints, and an empty map would be larger than the rest of a session.
  #byId: Map<string, CheckpointRecord> | undefined
  #byLabel: Map<string, CheckpointRecord> | undefined
  #metadataBytes = 0

  add(checkpoint: CheckpointRecord): void {
    this.#byId ??= new Map()
    this.#byLabel ??= new Map()
    this.#byId.set(checkpoint.id, checkpoint)
    this.#metadataBytes += metadataBytesOf(checkpoint)
    if (checkpoint.label !== '') this.#byLabel.set(checkpoint.label, checkpoint)
  }

  delete(checkpoint: CheckpointRecord): void {
    if (this.#byId?.delete(checkpoint.id) === true) this.#metadataBytes -= metadataBytesOf(checkpoint)
    if (checkpoint.label !== '') this.#byLabel?.delete(checkpoint.label)
  }

  get size(): number {
    return this.#byId?.size ?? 0
  }

  /** The approximate memory of the index, in bytes. */
  get bytes(): number {
    return (this.#byId?.size ?? 0) * checkpointBytes + this.#metadataBytes
  }

  byId(id: string): CheckpointRecord | undefined {
    return this.#byId?.get(id)
  }

  byLabel(label: string): CheckpointRecord | undefined {
    return this.#byLabel?.get(label)
  }

  values(): Iterable<CheckpointRecord> {
    return this.#byId?.values() ?? []
  }
}
