import type { Needs } from './operation.js'

/** What can be done in process only, and what it needs. */
export const nativeActions = {
  contentHash: { capabilities: ['files.read'] },
  exportTar: { capabilities: ['files.read'], when: { checkpoint: ['history'] } },
  exportRevision: { capabilities: ['sources', 'files.read'] },
  /**
   * The session with its history, from which anyone can make another: a fork that leaves the engine. Its log is whole, as
   * the chain of hashes wants it, so it shows what events tell of every service.
   */
  exportBundle: {
    capabilities: [
      'fork',
      'files.read',
      'history',
      'annotations',
      'approvals',
      'locks',
      'locks.force',
      'health',
      'secrets',
      'sources',
    ],
  },
  /** Writes files to a directory of the host. */
  checkout: { capabilities: ['checkout', 'files.read'] },
  /** Brings changes of a checked-out directory back. */
  syncCheckout: { capabilities: ['checkout', 'files.read', 'files.write'] },
  /** Reads of `session.fs`. */
  'fs.read': { capabilities: ['files.read'] },
  /** Changes of `session.fs`. */
  'fs.write': { capabilities: ['files.write'] },
} as const satisfies Record<string, Needs>
