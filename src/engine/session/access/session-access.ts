import { traced, tracedSync, type OperationTrace } from '../../base/diagnostics.js'
import type { Action } from '../../operations/index.js'
import type { Capability, Condition } from '../../operations/operation.js'
import { EngineError, engineClosed } from '../../base/errors.js'
import { touch } from '../table/activity.js'
import { inBackground, sessionNotFound, type Core } from '../core.js'
import { findSession } from '../history/replay.js'
import { expireNow, openUsed } from '../table/expiry.js'
import type { LiveSession, SessionSlot } from '../table/live.js'
import type { Permissions } from './permissions.js'
import { mutateSync, wouldBlock } from '../mutation-queue.js'
import { isExpired } from '../table/unused.js'
import { noteUseOf, whileUsed, type LongWork } from '../table/while-used.js'

/**
 * The access of a handle to its session. It uses the session in memory, and loads it again if it was evicted
 * or dropped.
 */
export class SessionAccess {
  readonly core: Core
  readonly sessionId: string
  #slot: SessionSlot
  #reopening: Promise<LiveSession> | undefined
  /** The commit of the newest synchronous change. */
  #unflushed: Promise<unknown> | undefined
  /** The error of the first synchronous change that was not stored, until a flush has reported it. */
  #lost: { readonly error: unknown } | undefined
  /** Undefined if everything is allowed. */
  readonly #permissions: Permissions | undefined

  constructor(core: Core, slot: SessionSlot, permissions?: Permissions) {
    this.core = permissions === undefined ? core : { ...core, mayReadFiles: () => this.allows('readFile') }
    this.sessionId = slot.id
    this.#slot = slot
    this.#permissions = permissions
  }

  /**
   * Runs an operation on the session. If the session is in memory, the operation runs synchronously.
   * Operations take effect in call order, so nothing may be awaited before them.
   *
   * @throws {EngineError} PERMISSION_DENIED when this handle may not perform the action.
   */
  run<T>(action: Action, operation: (live: LiveSession) => Promise<T>): Promise<T> {
    const act = (): Promise<T> => {
      const live = this.live(action)
      return live instanceof Promise ? live.then(operation) : operation(live)
    }
    return this.traced(action, this.open ? act : () => this.#censored(act))
  }

  /** Removes the hash of content from errors for handles that may not read the content. */
  async #censored<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (error) {
      if (!(error instanceof EngineError) || error.reason !== 'HASH_MISMATCH' || this.allows('contentHash'))
        throw error
      const { actualHash: _, ...details } = error.details
      throw new EngineError('HASH_MISMATCH', error.message, details)
    }
  }

  /** Like {@link run}, for a read. A read also updates `lastActivityAt`; see {@link touch}. */
  look<T>(action: Action, operation: (live: LiveSession) => Promise<T>): Promise<T> {
    return this.traced(action, () => {
      const live = this.reading(action)
      return live instanceof Promise ? live.then(operation) : operation(live)
    })
  }

  /** Like {@link live}, for a read. It waits while too many nodes are in memory. */
  reading(action: Action): LiveSession | Promise<LiveSession> {
    const live = this.live(action)
    if (live instanceof Promise) return live.then((loaded) => this.touched(loaded))
    const { unloading } = this.core.loader
    if (unloading === undefined) return this.touched(live)
    return unloading.then(() => this.live(action)).then((loaded) => this.touched(loaded))
  }

  /** The reference to the session in memory, for another handle on it. */
  get slot(): SessionSlot {
    return this.#slot
  }

  /**
   * The session, without a permission check. It is for the caller that just created the session and may lack
   * the right to read it.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when it was deleted.
   */
  async known(): Promise<LiveSession> {
    return this.#slot.live ?? this.#reopen()
  }

  /** Reports the call to diagnostics. An error that `act` throws becomes a rejection. */
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

  /**
   * Checks the permission for an action.
   *
   * @throws {EngineError} PERMISSION_DENIED when this handle may not perform the action.
   */
  permit(action: Action): void {
    this.#permissions?.check(action, { sessionId: this.sessionId })
  }

  /**
   * Checks the additional capabilities of a request that meets the condition.
   *
   * @throws {EngineError} PERMISSION_DENIED when this handle lacks one of them.
   */
  permitWhen(action: Action, condition: Condition): void {
    this.#permissions?.checkWhen(action, condition)
  }

  /** Whether this handle may do everything. */
  get open(): boolean {
    return this.#permissions === undefined
  }

  /** Whether this handle has a capability. */
  has(capability: Capability): boolean {
    return this.#permissions?.has(capability) ?? true
  }

  /** Whether this handle may perform the action. */
  allows(action: Action): boolean {
    return this.#permissions?.allows(action, { sessionId: this.sessionId }) ?? true
  }

  /**
   * Like {@link live}, without waiting.
   *
   * @throws {EngineError} WOULD_BLOCK when the session must be loaded. The load starts, so a later call can
   * succeed.
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted.
   * @throws {EngineError} PERMISSION_DENIED when this handle may not perform the action.
   */
  liveSync(action: Action): LiveSession {
    this.permit(action)
    if (this.core.fence.closed) inBackground(this.core, this.core.fence.recover())
    const { live } = this.#slot
    if (live?.discarded === 'deleted') throw sessionNotFound(live.id)
    if (live?.discarded === 'closed') throw engineClosed()
    const loaded =
      live === undefined || live.discarded !== undefined
        ? this.core.table.atHand(this.core.tenantKey, this.sessionId)
        : live
    if (loaded !== undefined) {
      if (!isExpired(this.core, loaded)) return this.#keep(loaded)
      if (this.core.sharing !== undefined) {
        this.#reopened().catch(() => undefined)
        throw wouldBlock('another engine may have used the session since')
      }
      inBackground(this.core, this.core.expire(this.core, loaded.id))
      throw sessionNotFound(loaded.id)
    }
    // Starts the load, so that a second try finds the session in memory.
    this.#reopened().catch(() => undefined)
    throw wouldBlock('the session is not in memory, and must be read from the storage')
  }

  /** Like {@link liveSync}, for a read. */
  readingSync(action: Action): LiveSession {
    return this.touched(this.liveSync(action))
  }

  /**
   * Keeps the session in memory for as long as this handle exists, so that it can always be used
   * synchronously.
   */
  #keep(live: LiveSession): LiveSession {
    live.revive?.()
    // It cannot wait for a newer state, but its use lets the engine look for one.
    this.core.sharing?.isFresh(this.core, live)
    this.core.table.residency.used(live)
    live.slot.synchronous = true
    live.slot.live = live
    this.#slot = live.slot
    return live
  }

  /**
   * Runs a change synchronously. {@link flush} waits for its commit.
   *
   * @throws {EngineError} WOULD_BLOCK when the change would have to wait.
   */
  changeSync(action: Action, operation: (live: LiveSession) => Promise<unknown>): void {
    const live = this.liveSync(action)
    if (this.#reopening !== undefined) throw wouldBlock('earlier operations of the session are not finished')
    const committed = mutateSync(this.core, live, () => operation(live))
    this.#unflushed = committed
    committed.catch((error: unknown) => {
      this.#lost ??= { error }
    })
  }

  /**
   * Resolves when all changes that were called on this handle are stored. Rejects if one was not stored. A
   * failed synchronous change is reported once.
   *
   * @throws {EngineError} STORE_CLOSED after the engine was closed.
   * @throws {EngineError} SESSION_NOT_FOUND after the session was deleted.
   */
  async flush(): Promise<void> {
    const gone = this.#reopening === undefined ? this.#whenGone(this.#slot.live) : undefined
    gone?.catch(() => undefined)
    // Calls that already wait for the session run first.
    const live = (await this.#reopening) ?? this.#slot.live
    await live?.tail
    const unflushed = this.#unflushed
    // The store's commits form one queue, so the newest one settles last. An evicted session has no pending
    // commits.
    const fates = await Promise.allSettled([unflushed, live?.acknowledged])
    if (this.#unflushed === unflushed) this.#unflushed = undefined
    const lost = this.#lost
    this.#lost = undefined
    if (lost !== undefined) throw lost.error
    for (const fate of fates) if (fate.status === 'rejected') throw fate.reason
    await gone
  }

  /** Rejects if the session no longer exists. Reads the store only if memory does not have the answer. */
  async #whenGone(live: LiveSession | undefined): Promise<void> {
    if (live?.discarded === 'closed') throw engineClosed()
    if (live !== undefined && live.discarded === undefined) return
    const { core, sessionId } = this
    if (live?.discarded === 'deleted' || core.table.deleting.has(sessionId)) throw sessionNotFound(sessionId)
    const record = await findSession(core, sessionId)
    if (record === undefined || record.deletedAt !== undefined) throw sessionNotFound(sessionId)
  }

  #trace(action: Action): OperationTrace {
    const { tenant, principal } = this.core
    return { action, tenant, principal, sessionId: this.sessionId }
  }

  protected touched(live: LiveSession): LiveSession {
    touch(this.core, live)
    return live
  }

  /** Counts as use of the session. */
  stayUsed(): void {
    noteUseOf(this.core, this.sessionId)
  }

  /** Waits for work that may take longer than the time to live of the session. See {@link whileUsed}. */
  whileUsed<T>(work: LongWork<T>): Promise<T> {
    return whileUsed(this.core, this.sessionId, work)
  }

  /**
   * The session, or a promise if the session must be loaded.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted.
   * @throws {EngineError} PERMISSION_DENIED when this handle may not perform the action.
   */
  live(action: Action): LiveSession | Promise<LiveSession> {
    this.permit(action)
    const { live } = this.#slot
    // Calls that already wait come first.
    if (this.#reopening !== undefined) return this.#reopening
    if (live === undefined || live.discarded !== undefined || this.core.fence.closed) return this.#reopened()
    if (isExpired(this.core, live)) return expireNow(this.core, this.sessionId)
    live.revive?.()
    this.core.table.residency.used(live)
    if (this.core.sharing?.isFresh(this.core, live) === false) return this.#reopened()
    return live
  }

  /**
   * Loads the session once for all callers. Callers that arrive before the waiters resume are queued after
   * them.
   */
  #reopened(): Promise<LiveSession> {
    if (this.#reopening !== undefined) return this.#reopening
    const reopening = this.#reopen()
    this.#reopening = reopening
    const end = (): void => {
      this.#reopening = undefined
    }
    reopening.then(end, end)
    return reopening
  }

  async #reopen(): Promise<LiveSession> {
    // After a failed commit, the store recovers first, if it can. If it cannot, the stored state can still be
    // read.
    await this.core.fence.recover()
    const live = await openUsed(this.core, this.sessionId)
    this.#slot = live.slot
    return live
  }
}
