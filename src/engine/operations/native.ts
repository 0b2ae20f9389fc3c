import type { Needs } from './operation.js'

/** Actions that are available in process only, with the capabilities that they need. */
export const nativeActions = {
  contentHash: { capabilities: ['files.read'] },
  exportTar: { capabilities: ['files.read'], when: { checkpoint: ['history'] } },
  exportRevision: { capabilities: ['sources', 'files.read'] },
  /**
   * Exports the session with its history. The importer gets its own session, so this is a fork into another
   * engine. The hash chain requires the whole log, so the bundle has the events of every service.
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
  /** Exports commits as a git bundle. */
  exportCommits: { capabilities: ['files.read', 'history'] },
  /** Serves the states of a session as git commits. */
  fetchRepository: { capabilities: ['files.read', 'history'] },
  /** Applies commits of a git client to the session. */
  pushRepository: { capabilities: ['files.read', 'files.write', 'history', 'commit'] },
  /** Writes files to a directory of the host. */
  checkout: { capabilities: ['checkout', 'files.read'] },
  /** Applies the changes of a checked-out directory to the session. */
  syncCheckout: { capabilities: ['checkout', 'files.read', 'files.write'] },
  /** Runs a command of the host in a checkout. */
  exec: { capabilities: ['exec', 'checkout', 'files.read', 'files.write'] },
  /** Reads of `session.fs`. */
  'fs.read': { capabilities: ['files.read'] },
  /** Changes of `session.fs`. */
  'fs.write': { capabilities: ['files.write'] },
} as const satisfies Record<string, Needs>

/**
 * The name of an action that is available in process only.
 *
 * @useDeclaredType
 */
export type NativeAction = keyof typeof nativeActions
