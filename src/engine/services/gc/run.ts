import type { TimeSlice } from '../../base/cooperative.js'
import type { SharedRun } from './shared-run.js'
import type { Core } from '../../session/core.js'

/** The stages of a collection, in order. */
export type CollectStage = 'sessions' | 'mark' | 'sweep' | 'reclaim'

/** The counters of {@link Collected}. */
export interface CollectCounts {
  freedBytes: number
  deletedBlobs: number
  deletedNodes: number
  deletedRecords: number
  deletedSessions: number
  prunedEvents: number
}

/** The state of one running collection. */
export interface Run {
  readonly core: Core
  readonly keepRedo: boolean
  readonly signal: AbortSignal
  /** Approximate bytes of memory for marks. */
  readonly markBytes: number
  /** The time since it last yielded to the event loop. */
  readonly slice: TimeSlice
  readonly report: (stage: CollectStage, done: number) => void
  readonly counts: CollectCounts
  /** Present if other engines may use the store meanwhile. */
  readonly shared: SharedRun | undefined
}

/** Yields to other work when the time slice is over. Throws if the signal is aborted by then. */
export async function rest({ signal, slice }: Pick<Run, 'signal' | 'slice'>): Promise<void> {
  if (!slice.over) return
  signal.throwIfAborted()
  await slice.next()
}

/** The core with the keys and store of a tenant. */
export function asTenant(core: Core, tenantKey: string): Core {
  return { ...core, tenantKey, store: core.storeOf(tenantKey) }
}

/** Resolves once reads see all earlier commits. */
export async function queued(core: Core): Promise<void> {
  await core.store.commit({})
}
