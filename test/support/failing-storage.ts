import { EngineError, type Storage, type Store } from '../../src/engine/ports.js'

type Commit = Parameters<Store['commit']>[0]

/**
 * A storage whose commits can be made to fail or to wait. As the contract requires, after a failure the store accepts
 * no writes until it has recovered or is reopened; reads continue.
 */
export class FailingStorage implements Storage {
  /**
   * The outcome of the next commits: fail permanently, be stored but report a failure, or report once that another
   * writer was first.
   */
  next: 'commit' | 'fail' | 'lose' | 'pass' = 'commit'
  /** After this many more commits, one fails or is lost; `reported` resolves when the failure is reported. */
  after:
    | { commits: number; readonly failure: 'fail' | 'lose'; readonly reported?: Promise<unknown> }
    | undefined
  /** Whether the disk is full, so that recovery fails too. */
  full = false
  /** The number of recovery attempts. */
  recoveries = 0
  readonly #storage: Storage
  #commitsLeft = Number.POSITIVE_INFINITY
  readonly #recovers: boolean
  #held: Promise<void> | undefined
  #release: (() => void) | undefined

  /** A store that does not recover has to be reopened. */
  constructor(storage: Storage, { recovers = false } = {}) {
    this.#storage = storage
    this.#recovers = recovers
  }

  /** Carries out this many commits and fails all later ones. */
  failAfter(commits: number): void {
    this.#commitsLeft = commits
  }

  /** Acknowledges no commits from now on. */
  hold(): void {
    this.#held = new Promise((resolve) => (this.#release = resolve))
  }

  /** Acknowledges the commits that were held. */
  release(): void {
    this.#release?.()
    this.#held = undefined
  }

  async open(): Promise<Store> {
    const store = await this.#storage.open()
    const state = { failed: false }
    const recover = async (): Promise<void> => {
      this.recoveries++
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
      if (this.full) throw new EngineError('STORE_FULL', 'the disk is full')
      state.failed = false
    }
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'commit') return (commit: Commit) => this.#commit(store, state, commit)
        if (name === 'recover') return this.#recovers ? recover : undefined
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
      has: (target, name) => (name === 'recover' ? this.#recovers : Reflect.has(target, name)),
    })
  }

  async #commit(store: Store, state: { failed: boolean }, commit: Commit): Promise<boolean> {
    if (this.#commitsLeft-- <= 0) this.next = 'fail'
    const reported = this.after?.reported
    const failure = this.#failure()
    if (this.#recovers && state.failed)
      throw new EngineError('STORE_FAILED', 'an earlier commit failed', { outcome: 'not-applied' })
    if (failure !== undefined) {
      state.failed = true
      if (failure === 'lose') await store.commit(commit)
      await reported
      throw this.full ? new EngineError('STORE_FULL', 'the disk is full') : new Error('the commit failed')
    }
    if (this.next === 'pass') {
      this.next = 'commit'
      return false
    }
    const held = this.#held
    const stored = await store.commit(commit)
    await held
    return stored
  }

  #failure(): 'fail' | 'lose' | undefined {
    if (this.next === 'fail' || this.next === 'lose') return this.next
    if (this.full) return 'fail'
    if (this.after === undefined || --this.after.commits >= 0) return undefined
    const { failure } = this.after
    this.after = undefined
    return failure
  }
}
