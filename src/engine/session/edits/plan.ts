import type { NewEvent } from '../mutation-queue.js'

/**
 * The result of a planning function: the event that carries out a request, or undefined if nothing changes.
 * The function checks the request against the newest state, and changes nothing itself.
 */
export type Plan = NewEvent | undefined
