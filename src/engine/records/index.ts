/** Every kind of record. Collection, check, repair and the deletion of sessions process this list. */
import { annotationKind } from './annotation.js'
import { approvalKind } from './approval.js'
import { branchTipKind } from './branch-tip.js'
import { busMessageKind } from './bus-message.js'
import { cacheEntryKind } from './cache-entry.js'
import { checkoutKind, seenDirectoryKind } from './checkout.js'
import { checkpointKind } from './checkpoint.js'
import { egressKind } from './egress.js'
import { fileLockKind } from './file-lock.js'
import { gitObjectKind } from './git-object.js'
import { gitTreeKind } from './git-tree.js'
import { healthReportKind } from './health-report.js'
import { importJobKind } from './import-job.js'
import { knownCommitsKind } from './known-commits.js'
import { lineageKind } from './lineage.js'
import { lastReadKind } from './last-read.js'
import { mergeKind } from './merge.js'
import { usageRollupKind } from './usage-rollup.js'
import type { RecordKind } from './record-kind.js'
import { revisionKind, revisionLabelKind } from './revision.js'
import { secretKind } from './secret.js'
import { sessionCountsKind } from './session-counts.js'
import { servedCommitKind } from './served-commit.js'
import { sessionKind } from './session.js'
import { snapshotKind } from './snapshot.js'
import { sourceKind } from './source.js'
import { unfinishedJobKind } from './unfinished-job.js'
import { writtenBlobsKind } from './written-blobs.js'

/** A kind without the type of its records. */
export type AnyRecordKind = Omit<RecordKind<unknown>, 'parse' | 'references'>

export const recordKinds: readonly AnyRecordKind[] = [
  sessionKind,
  snapshotKind,
  checkpointKind,
  branchTipKind,
  fileLockKind,
  annotationKind,
  approvalKind,
  cacheEntryKind,
  busMessageKind,
  healthReportKind,
  secretKind,
  lastReadKind,
  lineageKind,
  mergeKind,
  servedCommitKind,
  sessionCountsKind,
  sourceKind,
  importJobKind,
  unfinishedJobKind,
  revisionKind,
  revisionLabelKind,
  gitObjectKind,
  gitTreeKind,
  knownCommitsKind,
  checkoutKind,
  seenDirectoryKind,
  writtenBlobsKind,
  egressKind,
  usageRollupKind,
]

/**
 * The kinds whose records are deleted with their session. Their keys start with the prefix and the session's
 * id.
 */
export const sessionRecordKinds = recordKinds.filter(({ scope }) => scope === 'session')

/** The kind of a record, from its key. It is undefined for a key that a later version wrote. */
export function kindOf(key: string): AnyRecordKind | undefined {
  return recordKinds.find((kind) => kind.isKey(key))
}
