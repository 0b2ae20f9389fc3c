import { keys } from '../storage/keys.js'
import type { Core } from './core.js'
import type { LiveSession } from './live.js'
import { SessionStatus, type SessionRecord } from './records.js'

type Entry = [key: string, record: SessionRecord]

/** A commit met a moved branch. The record is to be stored; undefined when the status is that already. */
export function markConflict(core: Core, live: LiveSession): Entry | undefined {
  return change(core, live, SessionStatus.CONFLICT, live.record.pendingApprovals)
}

/**
 * The status of a session that nothing else holds back: active, or waiting for an approval. `approvals` is how
 * many more of them are pending now. The record is to be stored with what caused it; undefined when nothing
 * changes.
 */
export function settleStatus(core: Core, live: LiveSession, approvals = 0): Entry | undefined {
  const pending = (live.record.pendingApprovals ?? 0) + approvals
  const status = pending > 0 ? SessionStatus.PENDING_APPROVAL : SessionStatus.ACTIVE
  return change(core, live, status, pending > 0 ? pending : undefined)
}

function change(
  core: Core,
  live: LiveSession,
  status: SessionStatus,
  pendingApprovals: number | undefined,
): Entry | undefined {
  const { record } = live
  if (record.status === status && record.pendingApprovals === pendingApprovals) return undefined
  const { pendingApprovals: _, ...rest } = record
  live.record = { ...rest, status, ...(pendingApprovals !== undefined && { pendingApprovals }) }
  return [keys.session(core.tenantKey, live.id), live.record]
}
