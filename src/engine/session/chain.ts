import { sha256 } from '../base/hash.js'
import type { EventBody, EventType, Redo } from './events.js'

/** The `previous` of a session's first event. */
export const chainStart = ''

export interface ChainedEvent {
  /** The event's body as it is stored. */
  readonly text: string
  /** What the next event names as the one before it. */
  readonly hash: string
}

/**
 * The body of an event: its public part, in which the hash of the public part before it and that of its own
 * redo stand, then the redo. So each event fixes all before it, and goes on doing so when redo is pruned.
 */
export function chainEvent(
  [at, type, details, principal]: readonly [at: number, type: EventType, details: object, principal: string],
  previous: string,
  redo: readonly Redo[],
): ChainedEvent {
  const redoText = JSON.stringify(redo)
  const publicText = JSON.stringify([at, type, details, principal, previous, sha256(redoText)])
  return { text: `${publicText.slice(0, -1)},${redoText}]`, hash: sha256(publicText) }
}

/** The hash by which the next event names this one. */
export function hashOfEvent(body: EventBody): string {
  return sha256(JSON.stringify(body.slice(0, 6)))
}

/** Whether an event follows the one of this hash, and its redo, if it is there still, is the one it was made with. */
export function isChained(body: EventBody, previous: string): boolean {
  const [, , , , before, redoHash, redo] = body
  return before === previous && (redo === undefined || redoHash === sha256(JSON.stringify(redo)))
}
