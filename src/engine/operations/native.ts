import type { Capability } from './operation.js'

/** What can be done in process only, and what it needs. */
export const nativeActions = {
  contentHash: 'files.read',
  exportTar: 'files.read',
  exportRevision: 'sources',
  /** Reads of `session.fs`. */
  'fs.read': 'files.read',
  /** Changes of `session.fs`. */
  'fs.write': 'files.write',
} as const satisfies Record<string, Capability>
