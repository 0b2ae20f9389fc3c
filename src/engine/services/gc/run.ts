import type { Core } from '../../session/core.js'

/** Which a collection comes through in this order. */
export type CollectStage = 'sessions' | 'mark' | 'sweep' | 'reclaim'

/** What a collection took away; see {@link Collected}. */
export interface CollectCounts {
  freedBytes: number
  deletedBlobs: number
  deletedNodes: number
  deletedRecords: number
  deletedSessions: number
  prunedEvents: number
}

/** One collection under way. */
export interface Run {
  readonly core: Core
  readonly keepRedo: boolean
  readonly signal: AbortSignal
  /** About what its marks may have in memory. */
  readonly markBytes: number
  readonly report: (stage: CollectStage, done: number) => void
  readonly counts: CollectCounts
}

/** The same engine for a tenant. */
export function asTenant(core: Core, tenantKey: string): Core {
  return { ...core, tenantKey, store: core.storeOf(tenantKey) }
}

/** Resolves when reads see what was committed before. */
export async function queued(core: Core): Promise<void> {
  await core.store.commit({})
}
