import { isCount, isOneOf, isOptional, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

export const ImportJobState = {
  QUEUED: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
  RUNNING: 'UNDERLAY_IMPORT_JOB_STATE_RUNNING',
  SUCCEEDED: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
  FAILED: 'UNDERLAY_IMPORT_JOB_STATE_FAILED',
} as const
export type ImportJobState = (typeof ImportJobState)[keyof typeof ImportJobState]

/** The state of an import. A time or id that is not known yet is ''. */
export interface ImportJob {
  readonly jobId: string
  readonly sourceId: string
  readonly state: ImportJobState
  readonly revisionId: string
  readonly createdAt: string
  readonly startedAt: string
  readonly completedAt: string
  readonly errorCode: string
  readonly errorMessage: string
  /** While the job runs, of the files that it has read so far; then of all files of the revision. */
  readonly bytesProcessed: number
  /** Files and symlinks: while the job runs, those that it has read so far; then all of the revision. */
  readonly filesProcessed: number
  /** Bytes that came in from outside: of the archive, bundle, or pack, or of the files that were read of a directory. */
  readonly bytesTransferred: number
}

export const importJobKind = new RecordKind<ImportJob>({
  name: 'import job',
  prefix: keyPrefixes.job,
  scope: 'tenant',
  checks: {
    jobId: isText,
    sourceId: isText,
    state: isOneOf(ImportJobState),
    revisionId: isText,
    createdAt: isText,
    startedAt: isText,
    completedAt: isText,
    errorCode: isText,
    errorMessage: isText,
    bytesProcessed: isCount,
    filesProcessed: isCount,
    bytesTransferred: isOptional(isCount),
  },
  // Jobs of earlier versions did not count transferred bytes.
  revive: (job) => ({ ...job, bytesTransferred: job.bytesTransferred ?? 0 }),
})
