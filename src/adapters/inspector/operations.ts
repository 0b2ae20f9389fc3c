import type { OperationName } from '../../engine/contract.js'
import type { Capability } from '../../engine/index.js'

/** The operations that the page may call. None of them changes anything that a user stored. */
export const readOperations: ReadonlySet<OperationName> = new Set([
  'getSession',
  'listSessions',
  'listCheckpoints',
  'diff',
  'diffFiles',
  'listEvents',
  'resolveState',
  'readFileAt',
  'statPathAt',
  'listDirectoryAt',
  'listPathHistory',
  'blame',
  'getLineage',
  'watchChanges',
  'listConflicts',
  'readSymlink',
  'globPaths',
  'grepFiles',
  'listFileLocks',
  'listAnnotations',
  'listApprovals',
  'listCommits',
  'getCacheMetadata',
  'listCacheKeys',
  'getCacheStats',
  'subscribe',
  'getHealth',
  'listHealthReports',
  'getAnalytics',
  'getUsage',
  'getCasMetrics',
  'listSecrets',
  'listSources',
  'getSource',
  'getJob',
  'listJobs',
])

/** The operations that the page may call besides, with the option `write`. Some of them have previews. */
export const writeOperations: ReadonlySet<OperationName> = new Set([
  'restoreState',
  'undo',
  'redo',
  'mergeSession',
  'grantApproval',
  'denyApproval',
  'updateAnnotationStatus',
])

/** Withheld from the handle that serves a page without the option `write`. */
export const writeCapabilities: readonly Capability[] = ['files.write', 'approvals.decide']

/** Withheld from every page: no operation of it needs them. */
export const unusedCapabilities: readonly Capability[] = [
  'fork',
  'delete',
  'locks.force',
  'commit',
  'checkout',
  'exec',
  'promote',
]
