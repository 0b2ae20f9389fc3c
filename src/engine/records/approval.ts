import { isListOf, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The values of an approval's status. */
export const ApprovalStatus = {
  /** No principal has decided yet. */
  PENDING: 'APPROVAL_STATUS_PENDING',
  /** A principal granted the approval. This is final. */
  GRANTED: 'APPROVAL_STATUS_GRANTED',
  /** A principal denied the approval. This is final. */
  DENIED: 'APPROVAL_STATUS_DENIED',
} as const
/** One of the values of {@link ApprovalStatus}. */
export type ApprovalStatus = (typeof ApprovalStatus)[keyof typeof ApprovalStatus]

/** A request for a decision. {@link ApprovalOptions} sets which principals may decide. */
export interface Approval {
  /** The id of the approval. The ids of a session sort in order of creation. */
  readonly approvalId: string
  /** The id of the session. */
  readonly sessionId: string
  /** The kind of decision in upper case, such as `COMMIT_TO_MAIN`. */
  readonly reason: string
  /** The description from the request; '' if the request had none. */
  readonly summary: string
  /** Absolute paths in the session from the request; empty if the request had none. */
  readonly changedFiles: string[]
  /** Whether the approval is pending, granted or denied. */
  readonly status: ApprovalStatus
  /** The principal that requested the approval. */
  readonly requestedBy: string
  /** RFC 3339 time in UTC. */
  readonly createdAt: string
  /** The principal that granted or denied the approval; '' while it is pending. */
  readonly decidedBy: string
  /** RFC 3339 time in UTC of the decision; '' while the approval is pending. */
  readonly decidedAt: string
  /** The text given with a denial; '' for any other status. */
  readonly feedback: string
}

export const approvalKind = new RecordKind<Approval>({
  name: 'approval',
  prefix: keyPrefixes.approval,
  scope: 'session',
  bundle: { text: 'approvals' },
  checks: {
    approvalId: isText,
    sessionId: isText,
    reason: isText,
    summary: isText,
    changedFiles: isListOf(isText),
    status: isOneOf(ApprovalStatus),
    requestedBy: isText,
    createdAt: isText,
    decidedBy: isText,
    decidedAt: isText,
    feedback: isText,
  },
})
