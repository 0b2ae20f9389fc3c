import type { Environment } from '../base/environment.js'
import { limits } from '../base/limits.js'
import { keys, prefixEnd } from './keys.js'
import type { ByteRange, Store, StoreCommit, StoredBlob } from './store.js'

/** Contents that came at one time: how many bytes, in how many blobs, and how often they were written. */
export interface StoredAmount {
  readonly at: number
  readonly bytes: number
  readonly count: number
  readonly writtenBytes: number
}

/**
 * A store as one tenant uses it. Each commit that brings a blob records, in the same step, that the tenant has
 * it, since when, and how often it was written: a blob counts once for a tenant, however many sessions have it.
 */
export interface MeteredStore extends Store {
  /** To be called for contents that a store which is not durable is never given. */
  wrote(bytes: number): void
  /** Everything that the tenant has stored, in no order. */
  amounts(): AsyncIterable<StoredAmount>
}

const minuteMs = 60_000

/** The stores of the tenants of one engine; a tenant's is always the same. */
export function meteredStores(store: Store, environment: Environment): (tenantKey: string) => MeteredStore {
  const stores = new Map<string, MeteredStore>()
  return (tenantKey) => {
    let metered = stores.get(tenantKey)
    if (metered === undefined) stores.set(tenantKey, (metered = meter(store, environment, tenantKey)))
    return metered
  }
}

function meter(store: Store, environment: Environment, tenantKey: string): MeteredStore {
  const ledger = store.capabilities.durable
    ? new StoredLedger(store, environment, tenantKey)
    : new MinuteLedger(environment)
  return {
    capabilities: store.capabilities,
    commit: (commit) => (commit.blobs?.length ? ledger.commit(store, commit) : store.commit(commit)),
    events: (sessionId, range) => store.events(sessionId, range),
    get: (key) => store.get(key),
    lastEvent: (sessionId) => store.lastEvent(sessionId),
    scan: (range) => store.scan(range),
    blob: (hash, range) => store.blob(hash, range),
    close: () => store.close(),
    ...(store.getSync && { getSync: (key: string) => store.getSync!(key) }),
    ...(store.blobSync && { blobSync: (hash: string, range: ByteRange) => store.blobSync!(hash, range) }),
    ...(store.forget && { forget: (sessionId: string) => store.forget!(sessionId) }),
    wrote: (bytes) => ledger.wrote(bytes),
    amounts: () => ledger.amounts(),
  }
}

/** `[at, bytes, times written]`, as it stands in storage. */
type BlobAmount = readonly [at: number, bytes: number, times: number]

/** Keeps a record for each blob of the tenant. */
class StoredLedger {
  readonly #store: Store
  readonly #environment: Environment
  readonly #tenantKey: string
  /** What is queued, and cannot be read yet. */
  readonly #queued = new Map<string, BlobAmount>()

  constructor(store: Store, environment: Environment, tenantKey: string) {
    this.#store = store
    this.#environment = environment
    this.#tenantKey = tenantKey
  }

  /** The promise is the store's own: what is acknowledged is so in the order of the commits. */
  commit(store: Store, commit: StoreCommit): Promise<boolean> {
    const amounts = new Map<string, BlobAmount>()
    for (const blob of commit.blobs!) {
      const key = keys.tenantBlob(this.#tenantKey, blob.hash)
      amounts.set(
        key,
        this.#count(blob, amounts.get(key) ?? this.#queued.get(key) ?? this.#store.getSync?.(key)),
      )
    }
    for (const [key, amount] of amounts) this.#queued.set(key, amount)
    const stored = store.commit({ ...commit, put: [...(commit.put ?? []), ...amounts] })
    const forget = (): void => {
      for (const [key, amount] of amounts) if (this.#queued.get(key) === amount) this.#queued.delete(key)
    }
    stored.then(forget, forget)
    return stored
  }

  wrote(): void {}

  /** A store without synchronous reads counts a blob that comes again as if it came first. */
  #count({ bytes }: StoredBlob, before: BlobAmount | string | undefined): BlobAmount {
    if (before === undefined) return [this.#environment.wallClockMs(), bytes.byteLength, 1]
    const [at, length, times] = typeof before === 'string' ? (JSON.parse(before) as BlobAmount) : before
    return [at, length, times + 1]
  }

  async *amounts(): AsyncGenerator<StoredAmount> {
    const prefix = keys.tenantBlobs(this.#tenantKey)
    for (let gte = prefix; ;) {
      const found = await this.#store.scan({ gte, lt: prefixEnd(prefix), limit: limits.eventsPerRead })
      for (const [, json] of found) {
        const [at, bytes, times] = JSON.parse(json) as BlobAmount
        yield { at, bytes, count: 1, writtenBytes: bytes * times }
      }
      if (found.length < limits.eventsPerRead) return
      gte = `${found.at(-1)![0]}\0`
    }
  }
}

interface Minute {
  bytes: number
  count: number
  /** The sum of bytes times the moment at which they came. */
  moment: number
}

/** In memory equal contents are kept as often as they are written; what came in one minute is one amount. */
class MinuteLedger {
  readonly #environment: Environment
  readonly #minutes = new Map<number, Minute>()

  constructor(environment: Environment) {
    this.#environment = environment
  }

  commit(store: Store, commit: StoreCommit): Promise<boolean> {
    for (const { bytes } of commit.blobs!) this.wrote(bytes.byteLength)
    return store.commit(commit)
  }

  wrote(bytes: number): void {
    const at = this.#environment.wallClockMs()
    const number = Math.floor(at / minuteMs)
    let minute = this.#minutes.get(number)
    if (minute === undefined) this.#minutes.set(number, (minute = { bytes: 0, count: 0, moment: 0 }))
    minute.bytes += bytes
    minute.count++
    // From the minute's own start: the sum stays exact.
    minute.moment += bytes * (at - number * minuteMs)
  }

  async *amounts(): AsyncGenerator<StoredAmount> {
    for (const [number, { bytes, count, moment }] of this.#minutes) {
      const at = number * minuteMs + (bytes === 0 ? 0 : moment / bytes)
      yield { at, bytes, count, writtenBytes: bytes }
    }
  }
}
