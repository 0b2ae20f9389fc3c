import { isCount, isOneOf, isOptional, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The values of an import job's state. */
export const ImportJobState = {
  /** The job waits for earlier jobs of its source. */
  QUEUED: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
  /** The job reads its source. */
  RUNNING: 'UNDERLAY_IMPORT_JOB_STATE_RUNNING',
  /** The job created or found a revision; `revisionId` names it. This is final. */
  SUCCEEDED: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
  /** The job ended without a revision; `errorCode` and `errorMessage` give the cause. This is final. */
  FAILED: 'UNDERLAY_IMPORT_JOB_STATE_FAILED',
} as const
/** One of the values of {@link ImportJobState}. */
export type ImportJobState = (typeof ImportJobState)[keyof typeof ImportJobState]

/** The state of an import job. Times and ids that are not known yet are ''. */
export interface ImportJob {
  /** The id of the job. */
  readonly jobId: string
  /** The id of the source. */
  readonly sourceId: string
  /** Whether the job is queued, running, or has ended. */
  readonly state: ImportJobState
  /**
   * The id of the revision; '' until the job succeeds. It is the commit id for git; other equal contents give equal
   * ids.
   */
  readonly revisionId: string
  /** RFC 3339 time in UTC. */
  readonly createdAt: string
  /** RFC 3339 time in UTC when the job began to run; '' while it is queued. */
  readonly startedAt: string
  /** RFC 3339 time in UTC when the job succeeded or failed; '' before. */
  readonly completedAt: string
  /** The stable code of a failure, such as `REF_NOT_FOUND` or `INTERRUPTED`; '' unless the job failed. */
  readonly errorCode: string
  /** The message of a failure; '' unless the job failed. */
  readonly errorMessage: string
  /** Bytes of the files read so far. After success, bytes of all files in the revision. */
  readonly bytesProcessed: number
  /** Number of files and symlinks read so far. After success, number of those in the revision. */
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
