import type { Action } from '../../operations/index.js'
import type { Core } from '../../session/core.js'
import type { LiveSession } from '../../session/table/live.js'
import type { Baseline } from '../../records/baseline.js'
import type { Dir } from '../../tree/node.js'
import type { factNames } from './bundle-format.js'
import type { BundleFiles } from './bundle-ports.js'

/** The parts of the engine that bundles need. */
export interface BundleParts {
  readonly files: () => Promise<BundleFiles>
  readonly facts: readonly BundleFacts[]
  /** The baseline and tree of a revision; undefined if there is no revision with this id. */
  readonly revision: (
    core: Core,
    sourceId: string,
    revisionId: string,
  ) => Promise<readonly [Baseline, Dir] | undefined>
}

/** The records of a service that bundles include. */
export interface BundleFacts {
  /** The name of the records in the bundle. */
  readonly name: (typeof factNames)[number]
  /** The permission that a caller needs to read the records. */
  readonly action: Action
  readonly maxCount: number
  /** The most bytes of all records together, as {@link bytesOf} counts them. */
  readonly maxBytes: number
  bytesOf(record: object): number
  /** The permission that a caller needs to import the records, the same as to make them. */
  readonly importAction: Action
  /** Whether an import takes the records over. A bundle can name any principal as their author. */
  readonly isImported: boolean
  /** The records in order of creation, without the id of their session. */
  list(core: Core, live: LiveSession): Promise<readonly object[]>
  /**
   * Converts a value from a bundle to a record of a new session.
   *
   * @throws {EngineError} INVALID_BUNDLE when the value is damaged
   */
  revive(value: unknown, sessionId: string): BundleFact
  /** Adds the records to a new session in memory, if the store is not durable. */
  adopt(core: Core, live: LiveSession, facts: readonly BundleFact[]): void
}

export interface BundleFact {
  readonly id: string
  readonly key: string
  readonly record: object
}

/** Removes the id of the session, which bundles do not include. */
export function withoutSession(record: { readonly sessionId: string }): object {
  const rest: { sessionId?: string } = { ...record }
  delete rest.sessionId
  return rest
}
