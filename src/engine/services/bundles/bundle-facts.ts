import type { Action } from '../../operations/index.js'
import type { Core } from '../../session/core.js'
import type { LiveSession } from '../../session/table/live.js'
import type { Baseline } from '../../records/baseline.js'
import type { Dir } from '../../tree/node.js'
import type { factNames } from './bundle-format.js'
import type { BundleFiles } from './bundle-ports.js'

/** What bundles take from elsewhere. */
export interface BundleParts {
  readonly files: () => Promise<BundleFiles>
  readonly facts: readonly BundleFacts[]
  /** A revision as a session starts from it; undefined when there is none of this name. */
  readonly revision: (
    core: Core,
    sourceId: string,
    revisionId: string,
  ) => Promise<readonly [Baseline, Dir] | undefined>
}

/** Records of a service that go with a session into a bundle. */
export interface BundleFacts {
  /** Their name in the bundle. */
  readonly name: (typeof factNames)[number]
  /** The permission that a caller needs to get them. */
  readonly action: Action
  readonly maxCount: number
  /** In order of creation, without the id of their session. */
  list(core: Core, live: LiveSession): Promise<readonly object[]>
  /**
   * The record of another session that one from a bundle becomes.
   *
   * @throws {EngineError} INVALID_BUNDLE when the value is damaged
   */
  revive(value: unknown, sessionId: string): BundleFact
  /** Takes the records of a session that was just made, on a store that is not durable. */
  adopt(core: Core, live: LiveSession, facts: readonly BundleFact[]): void
}

export interface BundleFact {
  readonly id: string
  readonly key: string
  readonly record: object
}

/** Which session it is of is not in the bundle. */
export function withoutSession(record: { readonly sessionId: string }): object {
  const rest: { sessionId?: string } = { ...record }
  delete rest.sessionId
  return rest
}
