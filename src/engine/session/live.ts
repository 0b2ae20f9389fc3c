import type { Dir } from '../tree/node.js'
import type { Tree } from '../tree/tree.js'
import type { Follower } from './feed.js'
import type { HeldFile } from './held-files.js'
import type { CheckpointRecord, SessionRecord } from './records.js'

const nothingPending = Promise.resolve()

/** A session in memory. Its newest state; events up to `seq` are applied, the last ones perhaps not yet stored. */
export class LiveSession {
  readonly id: string
  readonly tenantKey: string
  record: SessionRecord
  /** The root of `record.baseline`, shared with all forks. */
  readonly baseline: Dir
  readonly tree: Tree
  seq: number
  /** The link of the newest event; '' before the first, and always on stores that are not durable. */
  chain: string
  /** Time of the newest event; event times never go back. */
  lastEventAt: number
  lastActivityAt: number
  /** The last activity that is stored. */
  activityStoredAt: number
  /** The newest event that a stored snapshot covers. */
  snapshotSeq: number
  snapshotting = false
  /** Roots of earlier states by seq, bounded; what is not here is found by replay. */
  pins: Map<number, Dir> | undefined
  /** Undefined until loaded. */
  checkpoints: CheckpointIndex | undefined
  /** The newest event's acknowledgement: what changes nothing rests on it. */
  acknowledged: Promise<void> = nothingPending
  /** Files that are open or locked. */
  held: Set<HeldFile> | undefined
  /** Who is told of stored events, each from behind a seq on. */
  followers: Map<Follower, number> | undefined
  /** The last mutation that waits for something not loaded; later ones queue behind it. */
  tail: Promise<void> | undefined
  /** Set when a write failed, the session was deleted or its engine closed: what is in here does not count any more. */
  discarded: 'failed' | 'deleted' | 'closed' | undefined = undefined

  constructor(
    tenantKey: string,
    record: SessionRecord,
    baseline: Dir,
    tree: Tree,
    state: { seq: number; at: number; readAt?: number; chain: string; snapshotSeq: number },
  ) {
    this.id = record.id
    this.tenantKey = tenantKey
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
    this.held = undefined
    this.followers = undefined
    this.tail = undefined
  }
}

/** The checkpoints of one session in order of creation. */
export class CheckpointIndex {
  // Most sessions have none, and a map is larger than the rest of a session.
  #byId: Map<string, CheckpointRecord> | undefined
  #byLabel: Map<string, CheckpointRecord> | undefined

  add(checkpoint: CheckpointRecord): void {
    this.#byId ??= new Map()
    this.#byLabel ??= new Map()
    this.#byId.set(checkpoint.id, checkpoint)
    if (checkpoint.label !== '') this.#byLabel.set(checkpoint.label, checkpoint)
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
