import { EngineError } from '../../base/errors.js'
import type { Log } from '../../base/log.js'
import { endFollowers } from '../history/feed.js'
import type { Dir } from '../../tree/node.js'
import type { LiveSession } from './live.js'
import { Residency } from './residency.js'
import { LastUses } from './last-uses.js'

/** The use of a session by operations that may take longer than its time to live. */
export interface LongUse {
  operations: number
  /** Notes a use at the current time. */
  readonly note: () => void
  /** Aborts once the session is deleted or the engine is closed. */
  readonly ended: AbortController
}

/** The sessions of all tenants that one engine has in memory, and pending work on them and their history. */
export class SessionTable {
  readonly live = new Map<string, LiveSession>()
  /** Decides which sessions stay in memory. */
  readonly residency: Residency
  /** Sessions whose deletion is not stored yet. They already count as deleted. */
  readonly deleting = new Set<string>()
  /**
   * Sessions that were dropped while commits were queued. They are read again once these commits have
   * settled.
   */
  readonly draining = new Map<string, Promise<void>>()
  /**
   * The dropped state of sessions with file references, until the sessions are read again. The references stay valid.
   */
  readonly dropped = new Map<string, LiveSession>()
  /** Running loads, by tenant key and session. Concurrent callers share one. */
  readonly loading = new Map<string, Promise<LiveSession>>()
  /**
   * Whether a collection is running. Each session that is created then waits for a turn of the event loop.
   */
  isCollecting = false
  /** Whether the engine is closed. Handles of states whose session left the table earlier learn of it only here. */
  isClosed = false
  /** Also those of sessions that have left memory, since the stored times may lag. */
  readonly lastUses = new LastUses()
  /** Sessions with operations that may take longer than their time to live. They do not expire. */
  readonly inUse = new Map<string, LongUse>()

  constructor(budgetBytes: number) {
    this.residency = new Residency(this.live, budgetBytes)
  }

  /**
   * The trees in memory that callers may read or change. They are frozen, so later changes create new nodes.
   */
  *trees(): Generator<Dir> {
    for (const sessions of [this.live.values(), this.residency.evicted, this.dropped.values()]) {
      for (const live of sessions) {
        yield live.tree.freeze()
        yield live.baseline
        yield* live.pins?.values() ?? []
        // The newer states of other engines are computed from it.
        if (live.shared !== undefined) yield live.shared.stored.root
      }
    }
  }

  /** A session in memory, if it belongs to the tenant. */
  inMemory(tenantKey: string, sessionId: string): LiveSession | undefined {
    const live = this.live.get(sessionId)
    return live?.tenantKey === tenantKey ? live : undefined
  }

  /** Like {@link inMemory}, but also revives an evicted session that is not freed yet. */
  atHand(tenantKey: string, sessionId: string): LiveSession | undefined {
    return this.inMemory(tenantKey, sessionId) ?? this.residency.revive(sessionId, tenantKey)
  }

  /**
   * Drops all sessions after a failed commit, because memory may be ahead of the store or lag it. Every
   * session is read again.
   */
  discardAll(log: Log): void {
    if (this.live.size > 0)
      log('error', 'a write failed: all sessions are reloaded', { sessions: this.live.size })
    for (const live of this.live.values()) this.discard(live, 'failed')
    for (const live of this.residency.takeEvicted()) live.discarded = 'failed'
  }

  /** Ends the work that waits for the caller, such as for the next piece of a content. */
  endLongUse(sessionId: string, reason: EngineError): void {
    this.inUse.get(sessionId)?.ended.abort(reason)
  }

  /** Removes a session from memory. The next caller reads it again from the store. */
  discard(live: LiveSession, why: 'failed' | 'deleted'): void {
    live.discarded = why
    endFollowers(
      live,
      why === 'deleted'
        ? undefined
        : new EngineError(
            'STORE_FAILED',
            'following the events ended, because a write to the storage failed; call follow() again with afterEventId',
          ),
    )
    this.live.delete(live.id)
    if (why === 'failed' && live.fileReferences !== undefined) this.dropped.set(live.id, live)
    const settled = live.acknowledged
      .catch(() => undefined)
      .then(() => {
        if (this.draining.get(live.id) === settled) this.draining.delete(live.id)
      })
    this.draining.set(live.id, settled)
  }
}
