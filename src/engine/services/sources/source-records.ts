import { formatTime } from '../../base/environment.js'
import type { StringMap } from '../../base/input.js'
import type { SourceKind, SourceRecord, SourceStatus } from '../../records/source.js'

/** A source: content from outside whose revisions sessions start from. */
export interface Source {
  /** The id of the source. */
  readonly sourceId: string
  /** A name for people. It need not be unique. */
  readonly displayName: string
  /** The kind of the source, which never changes. */
  readonly kind: SourceKind
  /** Whether the source can be used. */
  readonly status: SourceStatus
  /** The id of the newest revision; '' until an import succeeds. */
  readonly latestRevisionId: string
  /** RFC 3339 time in UTC. */
  readonly createdAt: string
  /** RFC 3339 time in UTC of the last change: the creation, an import, or a failed first import. */
  readonly updatedAt: string
  /** The principal that created the source. */
  readonly createdByPrincipal: string
  /** Names and values from the request; empty if the request had none. */
  readonly labels: StringMap
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
