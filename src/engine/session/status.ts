import type { LiveSession } from './table/live.js'
import { SessionStatus, type SessionRecord } from '../records/session.js'

/** The session's record when a commit met a moved branch; undefined when its status is that already. */
export function conflicting(live: LiveSession): SessionRecord | undefined {
  return changed(live, SessionStatus.CONFLICT, live.record.pendingApprovals)
}

/**
 * The record of a session that nothing else holds back: active, or waiting for an approval. `approvals` is how
 * many more of them are pending now. It takes effect with the event that it belongs to; undefined when nothing
 * changes.
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
