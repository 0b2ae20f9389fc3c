import { isNumber, isOneOf, isOptional, isText, isTexts } from '../base/checks.js'
import { reviveStringMap, type StringMap } from '../base/input.js'
import { keyPrefixes, keys } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The kinds of sources. The request that creates a source sets its kind. */
export const SourceKind = {
  /** A git repository at an http or https URL. */
  GIT_REMOTE: 'UNDERLAY_SOURCE_KIND_GIT_REMOTE',
  /** Each import uploads an archive, or passes files. */
  UPLOADED_SNAPSHOT: 'UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT',
  /** A directory of the engine's host. */
  HOST_PATH: 'UNDERLAY_SOURCE_KIND_HOST_PATH',
  /** Each import uploads a git bundle. */
  UPLOADED_GIT_BUNDLE: 'UNDERLAY_SOURCE_KIND_UPLOADED_GIT_BUNDLE',
  /** The directory of a git repository on this host. It is available only in process. */
  GIT_REPOSITORY: 'UNDERLAY_SOURCE_KIND_GIT_REPOSITORY',
} as const
/** One of the values of {@link SourceKind}. */
export type SourceKind = (typeof SourceKind)[keyof typeof SourceKind]

/** The values of a source's status. */
export const SourceStatus = {
  /** The contract reserves this value. This engine does not set it. */
  CREATING: 'UNDERLAY_SOURCE_STATUS_CREATING',
  /** The source exists. It has this status before its first import and while a job runs, too. */
  READY: 'UNDERLAY_SOURCE_STATUS_READY',
  /** An import failed, and the source has no revision. */
  FAILED: 'UNDERLAY_SOURCE_STATUS_FAILED',
  /** The source was deleted. The engine no longer returns it. */
  DELETING: 'UNDERLAY_SOURCE_STATUS_DELETING',
} as const
/** One of the values of {@link SourceStatus}. */
export type SourceStatus = (typeof SourceStatus)[keyof typeof SourceStatus]

/** The location of a git repository. Exactly one of the first two fields is set; for a bundle, neither is. */
export interface StoredRemote {
  readonly remoteUrl?: string
  readonly repositoryPath?: string
  readonly credentialsSecretId?: string
}

export interface SourceRecord {
  readonly sourceId: string
  readonly displayName: string
  readonly kind: SourceKind
  /** Set for the kinds that are repositories. */
  readonly remote?: StoredRemote
  /** Set for a host path. */
  readonly path?: string
  readonly defaultRef: string
  readonly status: SourceStatus
  readonly latestRevisionId: string
  readonly createdAt: number
  readonly updatedAt: number
  readonly createdBy: string
  readonly labels: StringMap
  /** The revision that the last scan of the host path led to. */
  readonly scannedRevisionId?: string
  /** A deleted source is hidden; its revisions stay. */
  readonly deletedAt?: number
}

export const sourceKind = new RecordKind<SourceRecord>({
  name: 'source',
  prefix: keyPrefixes.source,
  scope: 'tenant',
  checks: {
    sourceId: isText,
    displayName: isText,
    kind: isOneOf(SourceKind),
    remote: isOptional(isTexts),
    path: isOptional(isText),
    defaultRef: isText,
    status: isOneOf(SourceStatus),
    latestRevisionId: isText,
    createdAt: isNumber,
    updatedAt: isNumber,
    createdBy: isText,
    labels: isTexts,
    scannedRevisionId: isOptional(isText),
    deletedAt: isOptional(isNumber),
  },
  revive: (record) => ({ ...record, labels: reviveStringMap(record.labels) }),
  references: ({ sourceId, latestRevisionId, scannedRevisionId }, key, to) => {
    for (const revisionId of [latestRevisionId, scannedRevisionId])
      if (revisionId !== undefined && revisionId !== '')
        to.record(keys.revision(keys.tenantOfSource(key), sourceId, revisionId))
  },
})
