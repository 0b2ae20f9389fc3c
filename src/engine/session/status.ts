import type { LiveSession } from './table/live.js'
import { SessionStatus, type SessionRecord } from '../records/session.js'

/**
 * The session's record after a commit failed because the branch had moved. Undefined if the status is already
 * `CONFLICT`.
 */
export function conflicting(live: LiveSession): SessionRecord | undefined {
  return changed(live, SessionStatus.CONFLICT, live.record.pendingApprovals)
}

/**
 * The record of a session without a conflict: active, or waiting for an approval. `approvals` is the change
 * in the number of pending approvals. The record takes effect with the event that it belongs to. Undefined if
 * nothing changes.
 */
export function settled(live: LiveSession, approvals = 0): SessionRecord | undefined {
  const pending = (live.record.pendingApprovals ?? 0) + approvals
  const status = pending > 0 ? SessionStatus.PENDING_APPROVAL : SessionStatus.ACTIVE
  return changed(live, status, pending > 0 ? pending : undefined)
}

function changed(
  { record }: LiveSession,
  status: SessionStatus,
  pendingApprovals: number | undefined,
): SessionRecord | undefined {
  if (record.status === status && record.pendingApprovals === pendingApprovals) return undefined
  const { pendingApprovals: _, ...rest } = record
  return { ...rest, status, ...(pendingApprovals !== undefined && { pendingApprovals }) }
}
