import { keys } from '../storage/keys.js'
import type { Core } from './core.js'
import type { LiveSession } from './live.js'
import type { SessionRecord, SessionStatus } from './records.js'

/** Sets a session's status; the record is to be stored with what caused it. Undefined when it has that status. */
export function statusChange(
  core: Core,
  live: LiveSession,
  status: SessionStatus,
): [string, SessionRecord] | undefined {
  if (live.record.status === status) return undefined
  live.record = { ...live.record, status }
  return [keys.session(core.tenantKey, live.id), live.record]
}
