import {
  isCount,
  isListOf,
  isNumber,
  isObject,
  isOneOf,
  isOptional,
  isText,
  isTexts,
  isTupleOf,
  isWith,
} from '../base/checks.js'
import { reviveStringMap, type StringMap } from '../base/input.js'
import { reviveJsonObject, type JsonObject } from '../base/json-object.js'
import { keyPrefixes } from '../storage/keys.js'
import { baselineChecks, baselineReferences, type Baseline } from './baseline.js'
import type { EncodedNode } from '../tree/encoded.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/** The values of a session's status. No status prevents reads or changes. */
export const SessionStatus = {
  /** No approval is pending, no conflict is unresolved, and the last commit met none. */
  ACTIVE: 'SESSION_STATUS_ACTIVE',
  /** At least one approval is pending. */
  PENDING_APPROVAL: 'SESSION_STATUS_PENDING_APPROVAL',
  /** The contract reserves this value. This engine does not set it. */
  ARCHIVING: 'SESSION_STATUS_ARCHIVING',
  /** The contract reserves this value. This engine does not set it. */
  ARCHIVED: 'SESSION_STATUS_ARCHIVED',
  /** The contract reserves this value. This engine does not set it. */
  HYDRATING: 'SESSION_STATUS_HYDRATING',
  /** The contract reserves this value. This engine does not set it. */
  PENDING_REVIEW: 'SESSION_STATUS_PENDING_REVIEW',
  /**
   * A merge has unresolved conflicts, or the last commit failed with `BRANCH_MOVED`. The status ends with the last
   * conflict, or with the next successful commit. A request for approval also ends it, unless there are conflicts.
   */
  CONFLICT: 'SESSION_STATUS_CONFLICT',
} as const
/** One of the values of {@link SessionStatus}. */
export type SessionStatus = (typeof SessionStatus)[keyof typeof SessionStatus]

/**
 * Events that are older than the event before them, because the clock was ahead and has then been corrected.
 * Both numbers increase.
 */
export type SetBacks = readonly (readonly [seq: number, at: number])[]

export interface SessionRecord {
  readonly id: string
  readonly baseline: Baseline
  /**
   * The start of a fork's own history: state `seq` of another session. If absent, the history starts at the
   * baseline.
   */
  readonly base?: readonly [sessionId: string, seq: number]
  /** The tree that the history starts from, if a rebase has replaced the baseline; absent for a fork. */
  readonly start?: EncodedNode
  readonly status: SessionStatus
  readonly tags: StringMap
  /** Of a fork; absent if it has none. */
  readonly metadata?: JsonObject
  readonly createdAt: number
  /** The number of unresolved conflicts of the last merge; absent if there are none. */
  readonly conflicts?: number
  /** The number of undecided approvals; absent if there are none. */
  readonly pendingApprovals?: number
  /** The time without use after which the session is deleted. If absent, the engine's setting applies. */
  readonly ttlSeconds?: number
  /** The events at which the clock was found to be corrected; absent if there are none. */
  readonly setBacks?: SetBacks
  /**
   * A deleted session is hidden. Forks may still depend on its history. The value of `createdAt` marks a session whose
   * import is running or has failed.
   */
  readonly deletedAt?: number
  /**
   * true: a collection has deleted the history of the session, which was deleted before. Its forks still need its ancestry to
   * merge.
   */
  readonly collected?: true
}

export const sessionKind = new RecordKind<SessionRecord>({
  name: 'session',
  prefix: keyPrefixes.session,
  scope: 'tenant',
  checks: {
    id: isText,
    baseline: isWith(baselineChecks),
    base: isOptional(isTupleOf(isText, isCount)),
    start: isOptional(isRoot),
    status: isOneOf(SessionStatus),
    tags: isTexts,
    metadata: isOptional(isObject),
    createdAt: isNumber,
    conflicts: isOptional(isCount),
    pendingApprovals: isOptional(isCount),
    ttlSeconds: isOptional(isNumber),
    setBacks: isOptional(isListOf(isTupleOf(isCount, isNumber))),
    deletedAt: isOptional(isNumber),
    collected: isOptional((value) => value === true),
  },
  revive: (record) => ({
    ...record,
    tags: reviveStringMap(record.tags),
    ...(record.metadata !== undefined && { metadata: reviveJsonObject(record.metadata) }),
  }),
  references: ({ baseline, start }, _key, to) => {
    baselineReferences(baseline, to)
    if (start !== undefined) to.root(start)
  },
})

/** The tree that the history of a session starts from, unless the session is a fork. */
export function startOf({ start, baseline }: SessionRecord): EncodedNode {
  return start ?? baseline.root
}

/** The record after a rebase. The history still starts from the first baseline. */
export function withBaseline(record: SessionRecord, baseline: Baseline): SessionRecord {
  return { ...record, ...(record.base === undefined && { start: startOf(record) }), baseline }
}
