import { isListOf, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

export const ApprovalStatus = {
  PENDING: 'APPROVAL_STATUS_PENDING',
  GRANTED: 'APPROVAL_STATUS_GRANTED',
  DENIED: 'APPROVAL_STATUS_DENIED',
} as const
export type ApprovalStatus = (typeof ApprovalStatus)[keyof typeof ApprovalStatus]

/** A request for a decision; {@link ApprovalOptions} says which principals may decide. */
export interface Approval {
  readonly approvalId: string
  readonly sessionId: string
  readonly reason: string
  readonly summary: string
  readonly changedFiles: string[]
  readonly status: ApprovalStatus
  readonly requestedBy: string
  readonly createdAt: string
  /** '' until it was decided on, as is what follows. */
  readonly decidedBy: string
  readonly decidedAt: string
  /** Of a denial. */
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
