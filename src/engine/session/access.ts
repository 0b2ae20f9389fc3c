import { traced, tracedSync, type OperationTrace } from '../base/diagnostics.js'
import type { Action } from '../operations/index.js'
import { EngineError } from '../base/errors.js'
import { touch } from './activity.js'
import { sessionNotFound, type Core } from './core.js'
import type { LiveSession } from './live.js'
import type { Permissions } from './permissions.js'
import { openSession } from './recovery.js'
import { mutateSync, wouldBlock } from './transaction.js'

/** How a handle reaches its session: the state in memory, loaded again when it had to be dropped. */
export class SessionAccess {
  readonly core: Core
  readonly sessionId: string
  #live: LiveSession
  #reopening: Promise<LiveSession> | undefined
  /** The commit of the newest synchronous change. */
  #unflushed: Promise<unknown> | undefined
  /** The first synchronous change that was not stored, until a flush has told of it. */
  #lost: { readonly error: unknown } | undefined
  /** Undefined where everything is allowed. */
  readonly #permissions: Permissions | undefined

  constructor(core: Core, live: LiveSession, permissions?: Permissions) {
    this.core = core
    this.sessionId = live.id
    this.#live = live
    this.#permissions = permissions
  }

  /**
   * Runs an operation on the session, at once when it is in memory: operations take effect in the order of
   * the calls, so nothing may be awaited before them. PERMISSION_DENIED.
   */
  run<T>(action: Action, operation: (live: LiveSession) => Promise<T>): Promise<T> {
    return this.traced(action, () => {
      const live = this.live(action)
      return live instanceof Promise ? live.then(operation) : operation(live)
    })
  }

  /** As {@link run}, for a read: reads move `lastActivityAt` too, in memory. */
  look<T>(action: Action, operation: (live: LiveSession) => Promise<T>): Promise<T> {
    return this.traced(action, () => {
      const live = this.reading(action)
      return live instanceof Promise ? live.then(operation) : operation(live)
    })
  }

  /** As {@link live}, for a read. */
  reading(action: Action): LiveSession | Promise<LiveSession> {
    const live = this.live(action)
    return live instanceof Promise ? live.then((loaded) => this.#touch(loaded)) : this.#touch(live)
  }

  /** The session as this handle saw it last; it may have been dropped from memory since. */
  get known(): LiveSession {
    return this.#live
  }

  /** Tells those who listen to diagnostics; what `act` throws becomes a rejection. */
  traced<T>(action: Action, act: () => Promise<T>): Promise<T> {
    try {
      return traced(() => this.#trace(action), act)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  tracedSync<T>(action: Action, act: () => T): T {
    return tracedSync(() => this.#trace(action), act)
  }

  /** PERMISSION_DENIED where this handle may not do it. */
  permit(action: Action): void {
    this.#permissions?.check(action, { sessionId: this.sessionId })
  }

  /** Whether this handle may do it. */
  allows(action: Action): boolean {
    return this.#permissions?.allows(action, { sessionId: this.sessionId }) ?? true
  }

  /** As {@link live}, without waiting: WOULD_BLOCK where the session has to be loaded, and waiting would help. */
  liveSync(action: Action): LiveSession {
    this.permit(action)
    const live = this.#live
    if (live.discarded === undefined) return live
    if (live.discarded === 'deleted') throw sessionNotFound(live.id)
    if (live.discarded === 'closed') throw new EngineError('STORE_CLOSED', 'the engine was closed')
    const loaded = this.core.live.get(this.sessionId)
    if (loaded === undefined) throw wouldBlock('the session has to be loaded')
    return (this.#live = loaded)
  }

  /** Runs a change at once, WOULD_BLOCK where it cannot; {@link flush} waits for its commit. */
  changeSync(action: Action, operation: (live: LiveSession) => Promise<unknown>): void {
    const live = this.liveSync(action)
    const committed = mutateSync(this.core, live, () => operation(live))
    this.#unflushed = committed
    committed.catch((error: unknown) => {
      this.#lost ??= { error }
    })
  }

  /**
   * Resolves when everything that this handle was asked to do so far is stored; rejects when something was not,
   * once for a synchronous change.
   */
  async flush(): Promise<void> {
    // What was called before runs first when the session is there.
    const live = (await this.#reopening) ?? this.#live
    await live.tail
    const unflushed = this.#unflushed
    // The store's commits are one queue: the newest one's fate is known last.
    const fates = await Promise.allSettled([unflushed, live.acknowledged])
    if (this.#unflushed === unflushed) this.#unflushed = undefined
    const lost = this.#lost
    this.#lost = undefined
    if (lost !== undefined) throw lost.error
    for (const fate of fates) if (fate.status === 'rejected') throw fate.reason
  }

  #trace(action: Action): OperationTrace {
    const { tenant, principal } = this.core
    return { action, tenant, principal, sessionId: this.sessionId }
  }

  #touch(live: LiveSession): LiveSession {
    touch(this.core, live)
    return live
  }

  /** A promise only when the session has to be loaded; SESSION_NOT_FOUND when it was deleted, PERMISSION_DENIED. */
  live(action: Action): LiveSession | Promise<LiveSession> {
    this.permit(action)
    return this.#live.discarded ? (this.#reopening ??= this.#reopen()) : this.#live
  }

  async #reopen(): Promise<LiveSession> {
    try {
      return (this.#live = await openSession(this.core, this.sessionId))
    } finally {
      this.#reopening = undefined
    }
  }
}
