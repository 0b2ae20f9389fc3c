import type { Capability } from './operation.js'

/** What can be done in process only, and what it needs. */
export const nativeActions = {
  writeFile: 'files.write',
  appendFile: 'files.write',
  setMode: 'files.write',
  contentHash: 'files.read',
  diff: 'files.read',
  exportTar: 'files.read',
  deleteSource: 'sources',
  exportRevision: 'sources',
  abortJob: 'sources',
  listCheckpoints: 'files.read',
  listApprovals: 'approvals',
  listHealthReports: 'health',
  /** Reads of `session.fs`. */
  'fs.read': 'files.read',
  /** Changes of `session.fs`. */
  'fs.write': 'files.write',
} as const satisfies Record<string, Capability>
