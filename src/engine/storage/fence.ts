import type { Environment } from '../base/environment.js'
import { EngineError, messageOf } from '../base/errors.js'
import { limits } from '../base/limits.js'
import type { Log } from '../base/log.js'
import { nextTurn } from '../base/cooperative.js'
import { storedAtOnce, type Store } from './store.js'
import { wrapped } from './wrapped-store.js'

/**
 * Blocks commits after a failed one. After the first failure, nothing is committed until the store recovers.
 * The next request triggers the recovery. Reads continue. A store without `recover` decides for itself which
 * commits it still accepts.
 */
export class Fence {
  readonly #store: Store
  readonly #environment: Environment
  readonly #log: Log
  readonly #failed: (() => void)[] = []
  readonly #recovered: (() => void)[] = []
  /** The error of the failed commit, until the store recovers. */
  #failure: EngineError | undefined
  #recovering: Promise<void> | undefined
  /** The monotonic time before which recovery is not tried again. */
  #notBefore = 0
  #pauseMs = 0
  #epoch = 0

  constructor(store: Store, environment: Environment, log: Log) {
    this.#store = store
    this.#environment = environment
    this.#log = log
  }

  /** Whether commits are rejected now. */
  get closed(): boolean {
    return this.#failure !== undefined
  }

  /**
   * Increases when a commit fails, and when the store recovers. Data that was read in an earlier epoch may be
   * wrong.
   */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * Registers two callbacks. `failed` is called synchronously when a commit fails, before the commit rejects.
   * `recovered` is called when the store has recovered.
   */
  onChange(failed: () => void, recovered: () => void): void {
    this.#failed.push(failed)
    this.#recovered.push(recovered)
  }

  /** Throws the error with which a commit would be rejected now. Nothing of that commit would be stored. */
  check(): void {
    if (this.#failure !== undefined) throw this.rejection()
  }

  /** The error of a commit that was not tried: STORE_FULL, STORE_MOVED, STORE_TAKEN or STORE_FAILED. */
  rejection(): EngineError {
    const cause = this.#failure
    // No later attempt can succeed.
    if (cause?.reason === 'STORE_TAKEN')
      return new EngineError('STORE_TAKEN', cause.message, { outcome: 'not-applied' }, { cause })
    const isKnown = cause?.reason === 'STORE_FULL' || cause?.reason === 'STORE_MOVED'
    // Clients do not get the cause, so the message says what to do.
    const why = cause?.reason === 'STORE_MOVED' ? `: ${cause.message}` : ' (see cause); try again later'
    return new EngineError(
      isKnown ? cause.reason : 'STORE_FAILED',
      `the operation was not applied: an earlier write failed, and the storage has not recovered yet${why}`,
      { outcome: 'not-applied' },
      { cause },
    )
  }

  /** Passes on the result of a commit. Turns any failure into an EngineError. */
  watch(pending: Promise<boolean>): Promise<boolean> {
    return pending === storedAtOnce ? pending : pending.catch(this.#fail)
  }

  readonly #fail = (cause: unknown): never => {
    const error =
      cause instanceof EngineError
        ? cause
        : new EngineError(
            'STORE_FAILED',
            'a write to the storage failed (see cause)',
            { outcome: 'unknown' },
            { cause },
          )
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
   * Recovers the store if a commit failed. Concurrent calls share one recovery. Never rejects: {@link closed}
   * shows the outcome. After a failed attempt, the next one starts only after a pause of up to a second.
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
      // All callers whose commits failed together get their errors before anything is committed again.
      await nextTurn()
      await this.#store.recover?.()
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

/**
 * A store that rejects commits between a failed one and its recovery. All errors of its commits are
 * EngineErrors.
 */
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
          await store.reclaim?.(options)
        } catch (error) {
          // If a write failed, this empty commit fails too. Otherwise the next commit of a caller would be
          // the one to fail.
          await fence.watch(store.commit({})).catch(() => undefined)
          throw error
        }
      },
    }),
  })
}
