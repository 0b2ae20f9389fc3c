import { keys } from '../storage/keys.js'
import type { NewEvent } from './mutation-queue.js'
import { EngineError } from '../base/errors.js'
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
 * The record of a session after a commit or approval: active, waiting for an approval, or with the conflicts
 * of a merge. `approvals` is the change
 * in the number of pending approvals. The record takes effect with the event that it belongs to. Undefined if
 * nothing changes.
 */
export function settled(live: LiveSession, approvals = 0): SessionRecord | undefined {
  const pending = (live.record.pendingApprovals ?? 0) + approvals
  return changed(live, statusOf(live.record.conflicts, pending), pending > 0 ? pending : undefined)
}

/** The record of a session with a number of unresolved conflicts. */
export function withConflicts(record: SessionRecord, conflicts: number): SessionRecord {
  const { conflicts: _, ...rest } = record
  const status = statusOf(conflicts, record.pendingApprovals)
  return { ...rest, status, ...(conflicts > 0 && { conflicts }) }
}

function statusOf(conflicts = 0, pendingApprovals = 0): SessionStatus {
  if (conflicts > 0) return SessionStatus.CONFLICT
  return pendingApprovals > 0 ? SessionStatus.PENDING_APPROVAL : SessionStatus.ACTIVE
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

/** The changes of an event that replaces the whole tree: an unfinished merge ends. */
export function withoutMerge(live: LiveSession): Pick<NewEvent, 'session' | 'del'> {
  if (live.record.conflicts === undefined) return { session: settled(live) }
  return { session: withConflicts(live.record, 0), del: [keys.merge(live.id)] }
}

/**
 * Checks that a session has no unresolved conflicts.
 *
 * @throws {EngineError} UNRESOLVED_CONFLICTS when it has.
 */
export function checkNoConflicts({ id, conflicts }: SessionRecord): void {
  if (conflicts === undefined) return
  throw new EngineError(
    'UNRESOLVED_CONFLICTS',
    `the session has ${conflicts} unresolved conflict${conflicts === 1 ? '' : 's'} of a merge; resolve them with session.conflicts.resolve(), or end the merge with session.conflicts.abort()`,
    { sessionId: id, conflictCount: String(conflicts) },
  )
}
