/** Records of sessions and checkpoints as they stand in storage, as JSON. */
import { reviveStringMap, type StringMap } from '../base/input.js'
import type { EncodedNode } from '../tree/codec.js'

/** The values of a session's status. */
export const SessionStatus = {
  ACTIVE: 'SESSION_STATUS_ACTIVE',
  PENDING_APPROVAL: 'SESSION_STATUS_PENDING_APPROVAL',
  ARCHIVING: 'SESSION_STATUS_ARCHIVING',
  ARCHIVED: 'SESSION_STATUS_ARCHIVED',
  HYDRATING: 'SESSION_STATUS_HYDRATING',
  PENDING_REVIEW: 'SESSION_STATUS_PENDING_REVIEW',
  CONFLICT: 'SESSION_STATUS_CONFLICT',
} as const
export type SessionStatus = (typeof SessionStatus)[keyof typeof SessionStatus]

/**
 * The number of names of files and symlinks in a tree, and the bytes of these files. A hard-linked file counts once for
 * each of its names.
 */
export interface TreeCounts {
  readonly files: number
  readonly bytes: number
}

/** What a session and all its forks started from; never changes. */
export interface Baseline {
  /** The manifest hash of `root`, hex. */
  readonly fingerprint: string
  /** The tree, as a directory entry. */
  readonly root: EncodedNode
  /** What the tree has; absent where nobody counted, as in records of earlier versions. */
  readonly counts?: TreeCounts
  /** Present when the baseline is a revision of a source. */
  readonly revision?: {
    readonly sourceId: string
    readonly revisionId: string
    /** The git commit and tree behind it, hex; absent for an empty repository. */
    readonly git?: {
      readonly commitId: string
      readonly treeId: string
      /** The tree of that commit, where the revision is a state that was promoted on top of it. */
      readonly root?: EncodedNode
    }
  }
}

/**
 * Events that are older than the event before them, because the clock had been ahead and was corrected. Both numbers
 * increase.
 */
export type SetBacks = readonly (readonly [seq: number, at: number])[]

export interface SessionRecord {
  readonly id: string
  readonly baseline: Baseline
  /** Where a fork's own history starts: state `seq` of another session; absent: at the baseline. */
  readonly base?: readonly [sessionId: string, seq: number]
  readonly status: SessionStatus
  readonly tags: StringMap
  readonly createdAt: number
  /** Approvals that are not decided on; absent: none. */
  readonly pendingApprovals?: number
  /** After how long without use it is deleted; absent: as the engine has it. */
  readonly ttlSeconds?: number
  /** Where the clock was found to be set right; absent: nowhere. */
  readonly setBacks?: SetBacks
  /** A deleted session is hidden; forks may still rest on its history. */
  readonly deletedAt?: number
}

export interface CheckpointRecord {
  readonly id: string
  readonly seq: number
  readonly label: string
  readonly createdAt: number
}

/** A cached state: the tree after event `seq`, which happened at `at` and has the link `chain`. */
export interface SnapshotRecord {
  readonly seq: number
  readonly at: number
  readonly chain: string
  readonly root: EncodedNode
  /** The redo of events up to this one is not kept: this state is where replay starts. */
  readonly pruned?: true
}

export function parseSession(json: string): SessionRecord {
  const record = JSON.parse(json) as SessionRecord
  return { ...record, tags: reviveStringMap(record.tags) }
}
