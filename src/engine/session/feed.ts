import type { Dir } from '../tree/node.js'
import type { EventType, Redo } from './events.js'
import type { LiveSession } from './live.js'

/** An event that is stored. */
export interface CommittedEvent {
  readonly seq: number
  readonly at: number
  readonly type: EventType
  readonly details: object
  readonly principal: string
  readonly redo: readonly Redo[]
  /** Of a restore: the whole tree before and after it. */
  readonly restored?: { readonly before: Dir; readonly after: Dir }
}

/** Both are called at once when it happens, and must not throw. */
export interface Follower {
  event(event: CommittedEvent): void
  /** Nothing more comes: the session was deleted, its engine closed, or, with an error, a write failed. */
  end(error?: Error): void
}

/** Hands every event from now on to a follower, in order, once it is stored; the result ends it. */
export function follow(live: LiveSession, follower: Follower): () => void {
  live.comeBack?.()
  const from = live.seq
  const followers = (live.followers ??= new Map())
  followers.set(follower, from)
  return () => {
    followers.delete(follower)
  }
}

export function tellFollowers(live: LiveSession, event: CommittedEvent): void {
  for (const [follower, from] of live.followers ?? []) if (event.seq > from) follower.event(event)
}

export function endFollowers(live: LiveSession, error?: Error): void {
  const followers = live.followers
  live.followers = undefined
  for (const follower of followers?.keys() ?? []) follower.end(error)
}
