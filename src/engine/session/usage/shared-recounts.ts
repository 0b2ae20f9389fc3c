import { limits } from '../../base/limits.js'
import { inBackground, type Core } from '../core.js'
import { countSessionBytes } from './count-session-bytes.js'
import { bytesWritten } from './session-bytes.js'

/**
 * Counts the budgets again from time to time on a store that other engines change too: they store contents, and collect
 * those that are no longer needed.
 */
export class SharedRecounts {
  #running = false
  #nextAt: number

  constructor({ environment }: Core) {
    this.#nextAt = environment.monotonicMs() + limits.sharedRecountMs
  }

  /** Starts a count in the background if one is due. */
  start(core: Core): void {
    const { environment } = core
    if (this.#running || core.store.recounted === undefined || environment.monotonicMs() < this.#nextAt)
      return
    this.#running = true
    const startedAt = environment.monotonicMs()
    const counted = recount(core).finally(() => {
      const now = environment.monotonicMs()
      const pause = limits.sharedRecountPauses * (now - startedAt)
      this.#nextAt = now + Math.max(limits.sharedRecountMs, pause)
      this.#running = false
    })
    inBackground(core, counted)
  }
}

async function recount(core: Core): Promise<void> {
  await core.store.recounted?.()
  const { sessionBytes } = core
  if (sessionBytes === undefined) return
  for (const live of Array.from(core.table.live.values())) {
    // Another engine may have collected a part of the history, so the count may be too high, but not too low.
    if (bytesWritten(live) < limits.sharedRecountShare * sessionBytes) continue
    const { tenantKey } = live
    await countSessionBytes({ ...core, tenantKey, store: core.storeOf(tenantKey) }, live)
  }
}
