/** Records and public forms of sources, revisions and import jobs. */
import { formatTime } from '../../base/environment.js'
import { reviveStringMap, type StringMap } from '../../base/input.js'
import type { Baseline, TreeCounts } from '../../session/records.js'
import type { GitRemote } from './git-ports.js'

export const SourceKind = {
  GIT_REMOTE: 'UNDERLAY_SOURCE_KIND_GIT_REMOTE',
  UPLOADED_SNAPSHOT: 'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
  HOST_PATH: 'UNDERLAY_SOURCE_KIND_HOST_PATH',
  UPLOADED_GIT_BUNDLE: 'UNDERLAY_SOURCE_KIND_UPLOADED_GIT_BUNDLE',
  /** A repository directory on this host; only in process. */
  GIT_REPOSITORY: 'UNDERLAY_SOURCE_KIND_GIT_REPOSITORY',
} as const
export type SourceKind = (typeof SourceKind)[keyof typeof SourceKind]

export const SourceStatus = {
  CREATING: 'UNDERLAY_SOURCE_STATUS_CREATING',
  READY: 'UNDERLAY_SOURCE_STATUS_READY',
  FAILED: 'UNDERLAY_SOURCE_STATUS_FAILED',
  DELETING: 'UNDERLAY_SOURCE_STATUS_DELETING',
} as const
export type SourceStatus = (typeof SourceStatus)[keyof typeof SourceStatus]

export const ImportJobState = {
  QUEUED: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED',
  RUNNING: 'UNDERLAY_IMPORT_JOB_STATE_RUNNING',
  SUCCEEDED: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
  FAILED: 'UNDERLAY_IMPORT_JOB_STATE_FAILED',
} as const
export type ImportJobState = (typeof ImportJobState)[keyof typeof ImportJobState]

/** A durable baseline that sessions start from. */
export interface Source {
  readonly sourceId: string
  readonly displayName: string
  readonly kind: SourceKind
  readonly status: SourceStatus
  /** '' before the first import. */
  readonly latestRevisionId: string
  readonly createdAt: string
  readonly updatedAt: string
  readonly createdByPrincipal: string
  readonly labels: StringMap
}

/** The state of an import; '' stands for what has not happened yet. */
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

export interface SourceRecord {
  readonly sourceId: string
  readonly displayName: string
  readonly kind: SourceKind
  /** Of the kinds that are repositories. */
  readonly remote?: GitRemote
  /** Of a host path. */
  readonly path?: string
  readonly defaultRef: string
  readonly status: SourceStatus
  readonly latestRevisionId: string
  readonly createdAt: number
  readonly updatedAt: number
  readonly createdBy: string
  readonly labels: StringMap
  /** The revision that the host path was scanned into last. */
  readonly scannedRevisionId?: string
  /** A deleted source is hidden; its revisions stay. */
  readonly deletedAt?: number
}

/** A revision is what a session on it starts from. */
export type RevisionRecord = Baseline

/** The part of a revision's record that describes its tree. */
export type CountedBaseline = Omit<RevisionRecord, 'revision' | 'counts'> & { readonly counts: TreeCounts }

/** Jobs of earlier versions did not count what was transferred. */
export function parseJob(json: string): ImportJob {
  return { bytesTransferred: 0, ...(JSON.parse(json) as Omit<ImportJob, 'bytesTransferred'>) }
}

export function parseSource(json: string): SourceRecord {
  const record = JSON.parse(json) as SourceRecord
  return { ...record, labels: reviveStringMap(record.labels) }
}

export function describeSource(source: SourceRecord): Source {
  const { sourceId, displayName, kind, status, latestRevisionId, labels } = source
  return {
    sourceId,
    displayName,
    kind,
    status,
    latestRevisionId,
    createdAt: formatTime(source.createdAt),
    updatedAt: formatTime(source.updatedAt),
    createdByPrincipal: source.createdBy,
    labels: { ...labels },
  }
}
