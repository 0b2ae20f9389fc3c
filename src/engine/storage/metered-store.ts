import type { Environment } from '../base/environment.js'
import type { IdSource } from '../base/ids.js'
import { limits } from '../base/limits.js'
import { withReason } from './commit-failure.js'
import { keys, prefixEnd } from './keys.js'
import type { ByteRange, Store, StoreCommit } from './store.js'

/** Contents that came at one time: how many bytes, in how many blobs, and how often they were written. */
export interface StoredAmount {
  readonly at: number
  readonly bytes: number
  readonly count: number
  readonly writtenBytes: number
}

/**
 * A store as one tenant uses it. Each commit that brings blobs records, in the same step, that the tenant wrote
 * them and when: a blob counts once for a tenant, however often it was written and however many sessions have it.
 */
export interface MeteredStore extends Store {
  /** To be called for contents that a store which is not durable is never given. */
  wrote(bytes: number): void
  /** Everything that the tenant has stored, in no order. */
  amounts(): AsyncIterable<StoredAmount>
}

const minuteMs = 60_000

/** The stores of the tenants of one engine; a tenant's is always the same. */
export function meteredStores(
  store: Store,
  environment: Environment,
  ids: IdSource,
): (tenantKey: string) => MeteredStore {
  const stores = new Map<string, MeteredStore>()
  return (tenantKey) => {
    let metered = stores.get(tenantKey)
    if (metered === undefined) stores.set(tenantKey, (metered = meter(store, environment, ids, tenantKey)))
    return metered
  }
}

function meter(store: Store, environment: Environment, ids: IdSource, tenantKey: string): MeteredStore {
  const ledger = store.capabilities.durable
    ? new StoredLedger(store, environment, ids, tenantKey)
    : new MinuteLedger(environment)
  return {
    capabilities: store.capabilities,
    commit: (commit) =>
      withReason(commit.blobs?.length ? ledger.commit(store, commit) : store.commit(commit)),
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

/** When blobs were written, then of each the first digits of its hash and its size; as it stands in storage. */
type WrittenBlobs = readonly [at: number, ...hashesAndSizes: (string | number)[]]

/** Time, and enough of the rest to tell commits of two processes apart. */
const idDigits = 16

/** 96 bits tell the blobs of a tenant apart. */
const hashDigits = 24

/** Keeps a record for each commit that brought blobs, which nothing has to be looked up for. */
class StoredLedger {
  readonly #store: Store
  readonly #environment: Environment
  readonly #ids: IdSource
  readonly #tenantKey: string

  constructor(store: Store, environment: Environment, ids: IdSource, tenantKey: string) {
    this.#store = store
    this.#environment = environment
    this.#ids = ids
    this.#tenantKey = tenantKey
  }

  /** The promise is the store's own: what is acknowledged is so in the order of the commits. */
  commit(store: Store, commit: StoreCommit): Promise<boolean> {
    const written: [number, ...(string | number)[]] = [this.#environment.wallClockMs()]
    for (const { hash, bytes } of commit.blobs!) written.push(hash.slice(0, hashDigits), bytes.byteLength)
    const key = keys.writtenBlobs(this.#tenantKey, this.#ids.newId().slice(0, idDigits))
    return store.commit({ ...commit, put: [...(commit.put ?? []), [key, written satisfies WrittenBlobs]] })
  }

  wrote(): void {}

  async *amounts(): AsyncGenerator<StoredAmount> {
    const known = new Set<string>()
    const prefix = keys.allWrittenBlobs(this.#tenantKey)
    for (let gte = prefix; ;) {
      const found = await this.#store.scan({ gte, lt: prefixEnd(prefix), limit: limits.eventsPerRead })
      for (const [, json] of found) {
        const [at, ...blobs] = JSON.parse(json) as WrittenBlobs
        for (let i = 0; i < blobs.length; i += 2) {
          const hash = blobs[i] as string
          const writtenBytes = blobs[i + 1] as number
          const isNew = !known.has(hash)
          known.add(hash)
          yield { at, bytes: isNew ? writtenBytes : 0, count: isNew ? 1 : 0, writtenBytes }
        }
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
