import { setImmediate as nextTurn } from 'node:timers/promises'
import { EngineError, type Storage, type Store } from '../../src/engine/ports.js'

/** Calls that can be held. */
type Method = 'blob' | 'commit' | 'events' | 'get' | 'lastEvent' | 'listBlobs' | 'reclaim' | 'scan'

/** A call of a store that waits until it is released. */
export interface Held {
  /** Resolves when the call arrives. */
  readonly reached: Promise<void>
  /** Lets the call continue, even if it has not arrived yet. */
  release(): void
}

interface Hold {
  readonly method: Method
  readonly matches: (args: readonly unknown[]) => boolean
  readonly moment: 'before' | 'after'
  readonly reach: () => void
  readonly released: Promise<void>
}

/** The number of event loop turns without a call after which the storage counts as quiet. */
const quietTurns = 40

/**
 * A storage that can hold single calls before or after they take effect, so that a test controls what happens between
 * two steps of the engine. Commits after a held one wait too, as in the queue of a store.
 */
export class SteppedStorage implements Storage {
  readonly #storage: Storage
  #holds: Hold[] = []
  #underWay = 0
  #calls = 0
  #commits: Promise<void> | undefined
  /** The most recently opened store. */
  store!: Store

  constructor(storage: Storage) {
    this.#storage = storage
  }

  /** Holds the next call that matches. */
  hold<M extends Method>(
    method: M,
    matches: (...args: Parameters<NonNullable<Store[M]>>) => boolean,
    moment: 'before' | 'after' = 'before',
  ): Held {
    let release!: () => void
    let reach!: () => void
    const reached = new Promise<void>((resolve) => (reach = resolve))
    const released = new Promise<void>((resolve) => (release = resolve))
    this.#holds.push({
      method,
      matches: (args) => matches(...(args as Parameters<NonNullable<Store[M]>>)),
      moment,
      reach,
      released,
    })
    return { reached, release }
  }

  /** Resolves when all calls that are not held have ended and no new calls arrive. */
  async quiet(): Promise<void> {
    for (let turns = 0, seen = this.#calls; turns < quietTurns; turns++) {
      await nextTurn()
      if (this.#underWay > 0 || seen !== this.#calls) turns = 0
      seen = this.#calls
    }
  }

  async open(): Promise<Store> {
    this.store = await this.#storage.open()
    const { store } = this
    const methods: Partial<Record<string, unknown>> = {
      commit: (commit: Parameters<Store['commit']>[0]) => this.#commit(store, commit),
      events: (...args: Parameters<Store['events']>) => this.#events(store, args),
    }
    for (const method of ['blob', 'get', 'lastEvent', 'listBlobs', 'reclaim', 'scan'] as const)
      methods[method] = (...args: never[]) =>
        this.#around(method, args, () => (store[method] as (...args: never[]) => Promise<unknown>)(...args))
    // A blob whose read is held cannot be read synchronously.
    methods['blobSync'] = (...args: Parameters<Store['blob']>) => {
      if (this.#find('blob', args) >= 0) throw new EngineError('WOULD_BLOCK', 'the read is held')
      return store.blobSync!(...args)
    }
    return new Proxy(store, {
      get: (target, name) => {
        if (typeof name === 'string' && name in methods && name in target) return methods[name]
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  }

  #find(method: Method, args: readonly unknown[]): number {
    return this.#holds.findIndex((hold) => hold.method === method && hold.matches(args))
  }

  #take(method: Method, args: readonly unknown[]): Hold | undefined {
    const index = this.#find(method, args)
    return index < 0 ? undefined : this.#holds.splice(index, 1)[0]
  }

  async #around<T>(method: Method, args: readonly unknown[], call: () => Promise<T>): Promise<T> {
    const hold = this.#take(method, args)
    if (hold?.moment === 'before') await this.#wait(hold)
    const result = await this.#counted(call)
    if (hold?.moment === 'after') await this.#wait(hold)
    return result
  }

  #commit(store: Store, commit: Parameters<Store['commit']>[0]): Promise<boolean> {
    const hold = this.#take('commit', [commit])
    if (hold !== undefined) {
      const held = this.#wait(hold)
      this.#commits = (this.#commits ?? Promise.resolve()).then(() => held)
    }
    const before = this.#commits
    if (before === undefined) return this.#counted(() => store.commit(commit))
    return before.then(() => this.#counted(() => store.commit(commit)))
  }

  async *#events(store: Store, args: Parameters<Store['events']>): ReturnType<Store['events']> {
    const hold = this.#take('events', args)
    if (hold !== undefined) await this.#wait(hold)
    const pages = store.events(...args)[Symbol.asyncIterator]()
    for (;;) {
      const step = await this.#counted(() => pages.next())
      if (step.done === true) return
      yield step.value
    }
  }

  async #counted<T>(call: () => Promise<T>): Promise<T> {
    this.#calls++
    this.#underWay++
    try {
      return await call()
    } finally {
      this.#underWay--
    }
  }

  async #wait(hold: Hold): Promise<void> {
    hold.reach()
    await hold.released
  }
}
