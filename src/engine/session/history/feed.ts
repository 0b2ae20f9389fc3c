import type { Dir } from '../../tree/node.js'
import type { EventType, Redo } from '../../records/event.js'

/** A stored event. */
export interface CommittedEvent {
  readonly seq: number
  readonly at: number
  readonly type: EventType
  readonly details: object
  readonly principal: string
  readonly redo: readonly Redo[]
  /** For a restore: the whole tree before and after it. */
  readonly restored?: { readonly before: Dir; readonly after: Dir }
}

/**
 * Receives the events of a session. Both methods are called as soon as something happens, and must not throw.
 */
export interface Follower {
  event(event: CommittedEvent): void
  /**
   * Called when no more events will follow: the session was deleted, its engine was closed, or a write
   * failed. `error` is set only if a write failed.
   */
  end(error?: Error): void
}

/** The part of a session in memory that followers need. */
interface Followed {
  readonly seq: number
  /** The newest event that is stored, if another engine may store another one in place of a later event. */
  readonly shared?: { readonly stored: { readonly seq: number } } | undefined
  readonly revive: (() => void) | undefined
  followers: Map<Follower, number> | undefined
}

/** Passes every new event to a follower, in order, once it is stored. The returned function ends this. */
export function follow(live: Followed, follower: Follower): () => void {
  live.revive?.()
  const from = live.shared?.stored.seq ?? live.seq
  const followers = (live.followers ??= new Map())
  followers.set(follower, from)
  return () => {
    followers.delete(follower)
  }
}

export function notifyFollowers(live: Followed, event: CommittedEvent): void {
  for (const [follower, from] of live.followers ?? []) if (event.seq > from) follower.event(event)
}

export function endFollowers(live: Followed, error?: Error): void {
  const followers = live.followers
  live.followers = undefined
  for (const follower of followers?.keys() ?? []) follower.end(error)
}
