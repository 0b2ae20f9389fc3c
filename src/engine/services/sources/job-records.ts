import { formatTime } from '../../base/environment.js'
import { EngineError, errorRegistry } from '../../base/errors.js'
import { ImportJobState, type ImportJob } from '../../records/import-job.js'
import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import type { StoreCommit } from '../../storage/store.js'
import type { JobReference } from './job-requests.js'

/** The records that a commit puts and deletes. */
export interface JobRecords {
  readonly put: NonNullable<StoreCommit['put']>
  readonly del: NonNullable<StoreCommit['del']>
  /** The heads that the commit moves, on a shared store. */
  readonly heads?: StoreCommit['heads']
}

/** Records of a failure, and the head of the source that they change. */
export interface FailurePut {
  readonly put: JobRecords['put']
  readonly heads?: StoreCommit['heads']
}

export function hasEnded({ state }: ImportJob): boolean {
  return state === ImportJobState.SUCCEEDED || state === ImportJobState.FAILED
}

/** The job after a failure. */
export function failed(core: Core, job: ImportJob, errorCode: string, errorMessage: string): ImportJob {
  return { ...job, state: ImportJobState.FAILED, errorCode, errorMessage, completedAt: nowOf(core) }
}

export function keysOf(
  { tenantKey }: Core,
  { sourceId, jobId }: JobReference,
): [jobKey: string, unfinishedKey: string] {
  return [keys.job(tenantKey, sourceId, jobId), keys.unfinishedJob(tenantKey, sourceId, jobId)]
}

export function nowOf(core: Core): string {
  return formatTime(core.environment.wallClockMs())
}

/** The code of a failed job for an error. */
export function jobCodeOf(error: unknown): string {
  return error instanceof EngineError ? (errorRegistry[error.reason].job ?? 'INTERNAL') : 'INTERNAL'
}
