import type { NewEvent } from '../mutation-queue.js'
import type { LiveSession } from '../table/live.js'

/**
 * The result of a planning function: the event that carries out a request, or undefined if nothing changes.
 * The function checks the request against the newest state, and changes nothing itself.
 */
export type Plan = NewEvent | undefined

/** The state on which a step is planned: a session, or a copy of its state. */
export type PlanState = Pick<LiveSession, 'tree' | 'baseline' | 'lastEventAt'>

/** One step of a batch, planned on the result of the steps before it. */
export interface PlanStep {
  (state: PlanState): Plan
  /** The number of small changes that it makes; 1 by default. */
  readonly changes?: number | undefined
}
