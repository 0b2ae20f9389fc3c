import { isNumber, isOneOf, isOptional, isText, isTexts } from '../base/checks.js'
import { reviveStringMap, type StringMap } from '../base/input.js'
import { keyPrefixes, keys } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

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

/** The location of a git repository. Exactly one of the first two is set; neither is for a bundle. */
export interface StoredRemote {
  readonly remoteUrl?: string
  readonly repositoryPath?: string
  readonly credentialsSecretId?: string
}

export interface SourceRecord {
  readonly sourceId: string
  readonly displayName: string
  readonly kind: SourceKind
  /** Of the kinds that are repositories. */
  readonly remote?: StoredRemote
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
