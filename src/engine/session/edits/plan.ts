import type { NewEvent } from '../mutation-queue.js'

/**
 * The result of a planning function: it checks a request against the newest state and returns the event that
 * would carry it out, or nothing where nothing changes; it changes nothing itself.
 */
export type Plan = NewEvent | undefined
