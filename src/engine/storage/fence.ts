import type { Environment } from '../base/environment.js'
import { EngineError, messageOf } from '../base/errors.js'
import { limits } from '../base/limits.js'
import type { Log } from '../base/log.js'
import { nextTurn } from '../base/slices.js'
import type { Store } from './store.js'
import { wrapped } from './wrapped-store.js'

/**
 * What is known of a store's failed commits. From the first one on nothing is committed until the store recovered,
 * which is tried when somebody next asks for something; reads go on. A store without `recover` says for itself
 * what it still accepts.
 */
export class Fence {
  readonly #store: Store
  readonly #environment: Environment
  readonly #log: Log
  readonly #failed: (() => void)[] = []
  readonly #recovered: (() => void)[] = []
  /** What the store failed with, until it recovered. */
  #failure: EngineError | undefined
  #recovering: Promise<void> | undefined
  /** Before this, by the monotonic clock, the store is not tried again. */
  #notBefore = 0
  #pauseMs = 0
  #epoch = 0

  constructor(store: Store, environment: Environment, log: Log) {
    this.#store = store
    this.#environment = environment
    this.#log = log
  }

  /** Whether nothing can be committed now. */
  get closed(): boolean {
    return this.#failure !== undefined
  }

  /** Grows when a commit fails, and when the store recovered: what was read under another one may be wrong. */
  get epoch(): number {
    return this.#epoch
  }

  /** Calls back at once when a commit fails, before anybody else is told, and when the store has recovered. */
  onChange(failed: () => void, recovered: () => void): void {
    this.#failed.push(failed)
    this.#recovered.push(recovered)
  }

  /** Throws what a commit would be rejected with now: nothing of it is stored. */
  check(): void {
    if (this.#failure !== undefined) throw this.rejection()
  }

  /** STORE_FULL, STORE_MOVED or STORE_FAILED, of a commit that was not tried. */
  rejection(): EngineError {
    const cause = this.#failure
    const isKnown = cause?.reason === 'STORE_FULL' || cause?.reason === 'STORE_MOVED'
    return new EngineError(
      isKnown ? cause.reason : 'STORE_FAILED',
      'the operation was not applied: an earlier write failed (see cause), and the storage has not recovered yet; try again later',
      { outcome: 'not-applied' },
      { cause },
    )
  }

  /** What a commit comes to; what it fails with is an EngineError. */
  watch(pending: Promise<boolean>): Promise<boolean> {
    return pending.catch(this.#fail)
  }

  readonly #fail = (cause: unknown): never => {
    const error =
      cause instanceof EngineError
        ? cause
        : new EngineError('STORE_FAILED', 'a write to the storage failed (see cause)', {}, { cause })
    if (error.reason !== 'STORE_CLOSED' && this.#store.recover !== undefined) this.#close(error)
    throw error
  }

  #close(failure: EngineError): void {
    if (this.#failure !== undefined) return
    this.#failure = failure
    this.#epoch++
    for (const listener of this.#failed) listener()
  }

  /**
   * Recovers the store if a commit failed; who comes meanwhile shares it. Never rejects: whether it went well says
   * {@link closed}. After it went wrong some time has to pass before it is tried again, at most a second.
   */
  recover(): Promise<void> {
    if (this.#failure === undefined) return Promise.resolve()
    if (this.#recovering === undefined && this.#environment.monotonicMs() < this.#notBefore)
      return Promise.resolve()
    this.#recovering ??= this.#recover()
    return this.#recovering
  }

  async #recover(): Promise<void> {
    try {
      // Everybody whose commit failed with the first one is told before anything is committed again.
      await nextTurn()
      await this.#store.recover!()
    } catch (error) {
      this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, limits.recoveryPauseMs), limits.recoveryPauseMaxMs)
      this.#notBefore = this.#environment.monotonicMs() + this.#pauseMs
      this.#log('error', 'the store could not recover', { error: messageOf(error) })
      if (error instanceof EngineError) this.#failure = error
      return
    } finally {
      this.#recovering = undefined
    }
    this.#pauseMs = 0
    this.#notBefore = 0
    this.#failure = undefined
    this.#epoch++
    this.#log('info', 'the store recovered')
    for (const listener of this.#recovered) listener()
  }
}

/** A store whose commits are rejected between a failed one and its recovery, and fail with an EngineError. */
export function fenced(store: Store, fence: Fence): Store {
  return wrapped(store, {
    commit: (commit) =>
      fence.closed ? Promise.reject(fence.rejection()) : fence.watch(store.commit(commit)),
    ...(store.recover && {
      recover: async () => {
        await fence.recover()
        fence.check()
      },
    }),
    ...(store.reclaim && {
      reclaim: async (options: Parameters<NonNullable<Store['reclaim']>>[0]) => {
        try {
          await store.reclaim!(options)
        } catch (error) {
          // Where it failed with a write, this says so, and nobody's change has to.
          await fence.watch(store.commit({})).catch(() => undefined)
          throw error
        }
      },
    }),
  })
}
