import type { Storage, Store } from '../../src/engine/ports.js'

/** A storage that counts its use, and whose store can be closed under an engine, as a crash does. */
export class ObservedStorage implements Storage {
  /** Events returned by `events`. */
  eventsRead = 0
  /** Records returned by `get`, `getSync` and `scan`, by the first letter of their key. */
  readonly recordsRead = new Map<string, number>()
  eventsWritten = 0
  recordsWritten = 0
  readonly #storage: Storage
  readonly #dropSnapshots: boolean
  #store: Store | undefined
  /** Commits until the store is closed under the engine. */
  #commitsLeft = Number.POSITIVE_INFINITY

  constructor(storage: Storage, options: { readonly dropSnapshots?: boolean } = {}) {
    this.#storage = storage
    this.#dropSnapshots = options.dropSnapshots ?? false
  }

  reset(): void {
    this.eventsRead = 0
    this.recordsRead.clear()
    this.eventsWritten = 0
    this.recordsWritten = 0
  }

  /** The number of tree nodes that were loaded. */
  get nodesRead(): number {
    return this.recordsRead.get('n') ?? 0
  }

  /** Closes the store under the engine, which skips the engine's own closing steps. */
  async crash(): Promise<void> {
    await this.#store?.close()
  }

  /** Does the same as {@link crash}, after this many more commits. */
  crashAfter(commits: number): void {
    this.#commitsLeft = commits
  }

  /** The current store. */
  get stored(): Store {
    return this.#store!
  }

  async open(): Promise<Store> {
    this.#commitsLeft = Number.POSITIVE_INFINITY
    const store = await this.#storage.open()
    this.#store = store
    const count = (key: string): void => {
      const kind = key.charAt(0)
      this.recordsRead.set(kind, (this.recordsRead.get(kind) ?? 0) + 1)
    }
    const observe = this.#events.bind(this, store)
    return {
      capabilities: store.capabilities,
      commit: (commit) => {
        if (this.#commitsLeft-- <= 0) {
          this.#commitsLeft = 0
          return store.close().then(() => Promise.reject(new Error('the store is gone')))
        }
        this.eventsWritten += commit.events?.length ?? 0
        const put = this.#dropSnapshots ? commit.put?.filter(([key]) => !key.startsWith('r')) : commit.put
        this.recordsWritten += put?.length ?? 0
        return store.commit(put === undefined ? commit : { ...commit, put })
      },
      events: observe,
      lastEvent: (sessionId) => store.lastEvent(sessionId),
      get: (key) => {
        count(key)
        return store.get(key)
      },
      scan: async (range) => {
        const found = await store.scan(range)
        for (const [key] of found) count(key)
        return found
      },
      blob: (hash, range) => store.blob(hash, range),
      close: () => store.close(),
      ...(store.getSync !== undefined && {
        getSync: (key: string) => {
          count(key)
          return store.getSync!(key)
        },
      }),
      ...(store.blobSync !== undefined && { blobSync: store.blobSync.bind(store) }),
      ...(store.forget !== undefined && { forget: store.forget.bind(store) }),
      ...(store.shared !== undefined && { shared: store.shared }),
      ...(store.listBlobs !== undefined && { listBlobs: store.listBlobs.bind(store) }),
      ...(store.reclaim !== undefined && { reclaim: store.reclaim.bind(store) }),
    }
  }

  async *#events(store: Store, ...args: Parameters<Store['events']>): ReturnType<Store['events']> {
    for await (const page of store.events(...args)) {
      this.eventsRead += page.length
      yield page
    }
  }
}
