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
  /** Bytes of the files read so far. After success, of all files in the revision. */
  readonly bytesProcessed: number
  /** Files and symlinks read so far. After success, all of those in the revision. */
  readonly filesProcessed: number
  /** Bytes received from outside: the archive, bundle or pack, or the files read from a directory. */
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
