import type { TimeSlice } from '../../base/slices.js'
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

/** Sessions that are looked at at once: beside a load each wait takes long. */
export const sessionsAtOnce = 32

/** One collection under way. */
export interface Run {
  readonly core: Core
  readonly keepRedo: boolean
  readonly signal: AbortSignal
  /** About what its marks may have in memory. */
  readonly markBytes: number
  /** How long it has run without a turn of the event loop. */
  readonly slice: TimeSlice
  readonly report: (stage: CollectStage, done: number) => void
  readonly counts: CollectCounts
}

/** Lets others have a turn when it is time, and ends where the signal says so. */
export async function rest({ signal, slice }: Pick<Run, 'signal' | 'slice'>): Promise<void> {
  if (!slice.over) return
  signal.throwIfAborted()
  await slice.next()
}

/** The same engine for a tenant. */
export function asTenant(core: Core, tenantKey: string): Core {
  return { ...core, tenantKey, store: core.storeOf(tenantKey) }
}

/** Resolves when reads see what was committed before. */
export async function queued(core: Core): Promise<void> {
  await core.store.commit({})
}
