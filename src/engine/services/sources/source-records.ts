import { formatTime } from '../../base/environment.js'
import type { StringMap } from '../../base/input.js'
import type { SourceKind, SourceRecord, SourceStatus } from '../../records/source.js'

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
