import { present } from '../base/present.js'
import { TimeSlice } from '../base/cooperative.js'
import { isCount, isListOf, isNumber, isText, isTupleOf, isWith } from '../base/checks.js'
import { EngineError } from '../base/errors.js'
import type { Environment } from '../base/environment.js'
import type { IdSource } from '../base/ids.js'
import { limits } from '../base/limits.js'
import type { BudgetedBlob, ByteBudgets } from './byte-budgets.js'
import { keys } from './keys.js'
import { scanAll } from './scan-all.js'
import type { Store, StoreCommit } from './store.js'
import { wrapped } from './wrapped-store.js'

/**
 * Contents written at one time: their bytes, the number of blobs, and the bytes of all writes of these blobs.
 */
export interface StoredAmount {
  readonly at: number
  /**
   * The time of deletion. Absent if the contents are still stored. For deleted contents only the bytes are
   * known.
   */
  readonly until?: number
  readonly bytes: number
  readonly count: number
  readonly writtenBytes: number
}

/**
 * The store as one tenant uses it. Each commit with blobs also records, atomically, that the tenant wrote them and when.
 * A few commits share a record: each of them stores it again, with its own blobs added. On a durable store, a blob counts
 * once for a tenant, no matter how often it was written or how many sessions have it.
 */
export interface MeteredStore extends Store {
  /**
   * Checks the budgets for new contents. Present if the engine has budgets.
   *
   * @throws {EngineError} BUDGET when the contents would exceed a budget.
   */
  admit?(blobs: readonly BudgetedBlob[]): void
  /**
   * Checks the budgets, and counts the contents at once. Call this for contents that several commits store, so that two
   * writers together stay within a budget.
   *
   * @throws {EngineError} BUDGET when the contents would exceed a budget.
   */
  reserve?(blobs: readonly BudgetedBlob[]): void
  /** Resolves when the budgets are counted. Await this before a tenant's first write. */
  counted?(): Promise<void>
  /** Recounts the budgets. Call this after contents of any tenant were deleted. */
  recounted?(): Promise<void>
  /**
   * Drops the counts, which may include failed commits of any tenant. Call this after the store has
   * recovered.
   */
  miscounted?(): void
  /** Counts content that stays in memory, because the store is not durable and never receives it. */
  wrote(bytes: number): void
  /** All contents that the tenant stored, including deleted ones, in no particular order. */
  amounts(): AsyncIterable<StoredAmount>
  /**
   * Makes the next commits of all tenants begin new records. Call this before making the id for `compactAmounts`, and
   * await all queued commits between the two.
   */
  beginRecords(): void
  /**
   * Rewrites the records from before `id` was made in a shorter form, with the commits of `store`, which may refuse them.
   * Contents that are not kept count as deleted now. `isKept` is not called for contents that were recorded later.
   */
  compactAmounts(store: Store, id: string, isKept: (hashDigits: string) => boolean): Promise<void>
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** Makes the stores of the tenants of one engine. A tenant always gets the same store. */
export function meteredStores(
  store: Store,
  environment: Environment,
  ids: IdSource,
  budgets?: ByteBudgets,
): (tenantKey: string) => MeteredStore {
  const stores = new Map<string, MeteredStore>()
  const ledgers: Ledger[] = []
  let counted: Promise<void> | undefined
  const counting = (): Promise<void> => {
    if (counted !== undefined) return counted
    const count = countLedgers(store, environment, present(budgets, 'the budget of the store')).catch(
      (error: unknown) => {
        if (counted === count) counted = undefined
        throw error
      },
    )
    return (counted = count)
  }
  return (tenantKey) => {
    let metered = stores.get(tenantKey)
    if (metered === undefined) {
      metered = meter({ store, environment, ids, tenantKey, budgets, ledgers })
      if (budgets !== undefined) {
        metered.admit = (blobs) => budgets.admit(tenantKey, blobs)
        metered.reserve = (blobs) => {
          budgets.admit(tenantKey, blobs)
          budgets.add(tenantKey, blobs)
        }
        metered.counted = counting
        metered.miscounted = () => {
          if (!store.capabilities.durable) return
          // The next writers await `counted`, which then counts again.
          budgets.forget()
          counted = undefined
        }
        metered.recounted = async () => {
          // A store that is not durable has no ledger to count.
          if (!store.capabilities.durable) return
          await budgets.recount(async (next) => {
            // After this commit, the ledgers include every earlier commit that only the old counts contain.
            await store.commit({})
            await countLedgers(store, environment, next)
          })
        }
      }
      stores.set(tenantKey, metered)
    }
    return metered
  }
}

/** Counts the contents of all tenants that are still stored. */
async function countLedgers(store: Store, environment: Environment, budgets: ByteBudgets): Promise<void> {
  if (!store.capabilities.durable) return
  const slice = new TimeSlice(environment)
  // Newest first, so that the scan does not reach commits made meanwhile. These are counted as they are made.
  for await (const page of scanAll({ store }, keys.everyWrittenBlobs(), { reverse: true })) {
    for (const [key, json] of page) {
      const blobs = amountsIn(json).kept.map(([, hash, length]) => ({ hash, length }))
      budgets.add(keys.tenantOfWrittenBlobs(key), blobs)
      if (slice.over) await slice.next()
    }
  }
}

interface Metering {
  readonly store: Store
  readonly environment: Environment
  readonly ids: IdSource
  readonly tenantKey: string
  readonly budgets: ByteBudgets | undefined
  /** The ledgers of all tenants. */
  readonly ledgers: Ledger[]
}

function meter({ store, environment, ids, tenantKey, budgets, ledgers }: Metering): MeteredStore {
  const ledger: Ledger = store.capabilities.durable
    ? new StoredLedger(store, environment, ids, tenantKey)
    : new MinuteLedger(environment)
  ledgers.push(ledger)
  return {
    ...wrapped(store, {
      commit: (commit) => {
        if (!commit.blobs?.length) return store.commit(commit)
        budgets?.add(
          tenantKey,
          commit.blobs.map(({ hash, bytes }) => ({ hash, length: bytes.byteLength })),
        )
        return ledger.commit(store, commit)
      },
    }),
    wrote: (bytes) => {
      budgets?.add(tenantKey, [{ hash: '', length: bytes }])
      ledger.wrote(bytes)
    },
    amounts: () => ledger.amounts(),
    beginRecords: () => {
      for (const each of ledgers) each.beginRecord()
    },
    compactAmounts: (to, id, isKept) => ledger.compact(to, id, isKept),
  }
}

/** The contents that a tenant wrote, with their times. */
interface Ledger {
  /** Commits to the store, and records the blobs of the commit. */
  commit(store: Store, commit: StoreCommit): Promise<boolean>
  wrote(bytes: number): void
  /** Makes the next commit begin a new record. */
  beginRecord(): void
  amounts(): AsyncIterable<StoredAmount>
  compact(store: Store, id: string, isKept: (hashDigits: string) => boolean): Promise<void>
}

/**
 * The stored record of one commit with many blobs: a time, then for each blob the first digits of its hash and its
 * size. Earlier versions stored such a record for each commit.
 */
type WrittenBlobs = readonly [at: number, ...hashesAndSizes: (string | number)[]]

/**
 * The record of a few commits, and after a collection of many: each content once, and the bytes of deleted contents
 * summed by hour.
 */
interface CompactedBlobs {
  readonly kept: readonly (readonly [at: number, hash: string, bytes: number, times: number])[]
  readonly gone: readonly GoneBytes[]
}

type GoneBytes = readonly [at: number, until: number, bytes: number]

/** Time, and enough of the rest to distinguish commits of two processes. */
const idDigits = 16

/** Hex digits of a hash: 96 bits distinguish the blobs of a tenant. */
export const hashDigits = 24

/** A record that the next commits store again, with their blobs added. */
interface OpenRecord {
  readonly key: string
  /** The blobs of the record. */
  count: number
  /** For each commit, its part of the list `kept` as JSON. */
  readonly parts: string[]
  /** Whether it was stored again without the blobs of a commit that did not happen. */
  isCorrected: boolean
}

function jsonOf({ parts }: OpenRecord): string {
  return `{"gone":[],"kept":[${parts.join()}]}`
}

/**
 * Keeps a record of all commits with blobs. Writing it needs no reads. A few commits share a record, because the index
 * then has one key for all of them. A crash loses no blob of a stored commit: each commit has the whole record.
 */
class StoredLedger implements Ledger {
  readonly #store: Store
  readonly #environment: Environment
  readonly #ids: IdSource
  readonly #tenantKey: string
  #open: OpenRecord | undefined

  constructor(store: Store, environment: Environment, ids: IdSource, tenantKey: string) {
    this.#store = store
    this.#environment = environment
    this.#ids = ids
    this.#tenantKey = tenantKey
  }

  /** Returns the store's own promise, so that commits are acknowledged in order. */
  commit(store: Store, commit: StoreCommit): Promise<boolean> {
    const { blobs = [] } = commit
    const at = this.#environment.wallClockMs()
    if (blobs.length >= limits.blobsPerSharedRecord) {
      const written: [number, ...(string | number)[]] = [at]
      for (const { hash, bytes } of blobs) written.push(hash.slice(0, hashDigits), bytes.byteLength)
      return store.commit(withRecord(commit, [this.#newKey(), written satisfies WrittenBlobs]))
    }
    const record = this.#recordFor(blobs.length)
    const part = blobs
      .map(({ hash, bytes }) => `[${at},"${hash.slice(0, hashDigits)}",${bytes.byteLength},1]`)
      .join()
    record.count += blobs.length
    record.parts.push(part)
    const stored = store.commit(withRecord(commit, [record.key, jsonOf(record)]))
    stored.then(
      (isStored) => {
        if (!isStored) this.#withdraw(store, record, part)
      },
      () => this.#leave(record),
    )
    return stored
  }

  /**
   * Removes the blobs of a commit that did not happen, because another writer was first. Other commits may have stored
   * the record with them already. This is not so after a failure, which all later commits share.
   */
  #withdraw(store: Store, record: OpenRecord, part: string): void {
    this.#leave(record)
    const { key, parts } = record
    const at = parts.indexOf(part)
    parts.splice(at, 1)
    if (at === parts.length && !record.isCorrected) return
    record.isCorrected = true
    const correction = parts.length === 0 ? { del: [key] } : { put: [[key, jsonOf(record)] as const] }
    // If this fails, the next collection removes the blobs.
    store.commit(correction).catch(() => undefined)
  }

  #leave(record: OpenRecord): void {
    if (this.#open === record) this.#open = undefined
  }

  wrote(): void {}

  beginRecord(): void {
    this.#open = undefined
  }

  #recordFor(count: number): OpenRecord {
    const open = this.#open
    if (open !== undefined && open.count + count <= limits.blobsPerSharedRecord) return open
    return (this.#open = { key: this.#newKey(), count: 0, parts: [], isCorrected: false })
  }

  #newKey(): string {
    return keys.writtenBlobs(this.#tenantKey, this.#ids.newId().slice(0, idDigits))
  }

  async compact(store: Store, id: string, isKept: (hashDigits: string) => boolean): Promise<void> {
    const before = keys.writtenBlobs(this.#tenantKey, id.slice(0, idDigits))
    const now = this.#environment.wallClockMs()
    const slice = new TimeSlice(this.#environment)
    let compaction = new Compaction()
    const flush = async (): Promise<void> => {
      const [first, ...others] = compaction.keys
      const { isWorth, record } = compaction
      compaction = new Compaction()
      if (first === undefined || !isWorth) return
      const isEmpty = record.kept.length === 0 && record.gone.length === 0
      await store.commit(isEmpty ? { del: [first, ...others] } : { put: [[first, record]], del: others })
    }
    for await (const page of this.#earlier(before)) {
      for (const [key, json] of page) {
        compaction.add(key, amountsIn(json), isKept, now)
        if (compaction.size >= limits.blobsPerLedgerRecord || compaction.isLong) await flush()
        if (slice.over) await slice.next()
      }
    }
    await flush()
  }

  /** The records before a key of this process, and those of earlier processes whose clock was ahead. */
  async *#earlier(before: string): AsyncGenerator<readonly (readonly [key: string, json: string])[], void> {
    const prefix = keys.allWrittenBlobs(this.#tenantKey)
    yield* scanAll({ store: this.#store }, prefix, { before })
    // Other engines on a shared store make keys meanwhile too.
    if (this.#store.capabilities.shared !== undefined) return
    for await (const page of scanAll({ store: this.#store }, prefix, { reverse: true })) {
      // The keys of one process increase, so this process has made none above this one.
      const newest = this.#newKey()
      const ahead = page.filter(([key]) => key > newest)
      yield ahead
      if (ahead.length < page.length) return
    }
  }

  async *amounts(): AsyncGenerator<StoredAmount> {
    const known = new Set<string>()
    const prefix = keys.allWrittenBlobs(this.#tenantKey)
    for await (const page of scanAll({ store: this.#store }, prefix)) {
      for (const [, json] of page) {
        const { kept, gone } = amountsIn(json)
        for (const [at, hash, bytes, times] of kept) {
          const isNew = !known.has(hash)
          known.add(hash)
          yield { at, bytes: isNew ? bytes : 0, count: isNew ? 1 : 0, writtenBytes: bytes * times }
        }
        for (const [at, until, bytes] of gone) yield { at, until, bytes, count: 0, writtenBytes: 0 }
      }
    }
  }
}

/** The commit with one more record. */
function withRecord({ put, ...parts }: StoreCommit, record: readonly [string, string | object]): StoreCommit {
  // In Node 20, the other order takes a sixth of the time of a write: V8 then makes a hidden class for each commit.
  return { put: put === undefined ? [record] : [...put, record], ...parts }
}

const isCompacted = isWith<CompactedBlobs>({
  kept: isListOf(isTupleOf(isNumber, isText, isCount, isCount)),
  gone: isListOf(isTupleOf(isNumber, isNumber, isCount)),
})

/** Whether a record is a time, followed by pairs of hash and size. */
function isWritten(record: unknown): boolean {
  if (!Array.isArray(record) || record.length % 2 === 0 || !isNumber(record[0])) return false
  return record.every((value, index) => index === 0 || (index % 2 === 1 ? isText(value) : isCount(value)))
}

function amountsIn(json: string): CompactedBlobs {
  const record: unknown = JSON.parse(json)
  if (isCompacted(record)) return record
  if (!isWritten(record)) throw new EngineError('DATA_LOSS', 'a stored record of written bytes is damaged')
  const [at, ...blobs] = record as WrittenBlobs
  const kept: [number, string, number, number][] = []
  for (let i = 0; i < blobs.length; i += 2) kept.push([at, blobs[i] as string, blobs[i + 1] as number, 1])
  return { kept, gone: [] }
}

/** Ledger records that are merged into one. */
class Compaction {
  readonly keys: string[] = []
  /** Stored contents by hash, each with the time of its first write. */
  readonly #kept = new Map<string, [at: number, hash: string, bytes: number, times: number]>()
  /** Bytes of deleted contents, by the hours of writing and deletion. */
  readonly #gone = new Map<string, [at: number, until: number, bytes: number]>()
  readonly #lost = new Set<string>()
  #isShorter = false

  get size(): number {
    return this.#kept.size + this.#gone.size
  }

  /** Whether it has merged so many records that it must end, even if few contents remain. */
  get isLong(): boolean {
    return this.keys.length >= limits.recordsPerCompaction
  }

  get isWorth(): boolean {
    return this.#isShorter || this.keys.length >= limits.commitsPerCompaction
  }

  get record(): CompactedBlobs {
    return { kept: [...this.#kept.values()], gone: [...this.#gone.values()] }
  }

  add(key: string, { kept, gone }: CompactedBlobs, isKept: (hash: string) => boolean, now: number): void {
    this.keys.push(key)
    for (const [at, hash, bytes, times] of kept) {
      const known = this.#kept.get(hash)
      if (!isKept(hash)) {
        this.#isShorter = true
        // Content that was written twice was stored only once.
        if (!this.#lost.has(hash)) this.#addGone([at, now, bytes])
        this.#lost.add(hash)
      } else if (known === undefined) this.#kept.set(hash, [at, hash, bytes, times])
      else known[3] += times
    }
    for (const one of gone) this.#addGone(one)
  }

  #addGone([at, until, bytes]: GoneBytes): void {
    const hours = `${Math.floor(at / hourMs)} ${Math.floor(until / hourMs)}`
    const sum = this.#gone.get(hours)
    if (sum === undefined) this.#gone.set(hours, [at, until, bytes])
    else {
      const all = sum[2] + bytes
      // Both times are means, so that the sum of bytes over time does not change.
      if (all > 0) {
        sum[0] += ((at - sum[0]) * bytes) / all
        sum[1] += ((until - sum[1]) * bytes) / all
      }
      sum[2] = all
    }
  }
}

interface Minute {
  bytes: number
  count: number
  /** The sum of bytes × time of writing, with the time in milliseconds since the start of the minute. */
  moment: number
}

/**
 * The ledger of a store that is not durable. Such a store keeps a copy of content for each write, so this
 * ledger sums up the writes of each minute.
 */
class MinuteLedger implements Ledger {
  readonly #environment: Environment
  readonly #minutes = new Map<number, Minute>()

  constructor(environment: Environment) {
    this.#environment = environment
  }

  commit(store: Store, commit: StoreCommit): Promise<boolean> {
    for (const { bytes } of commit.blobs ?? []) this.wrote(bytes.byteLength)
    return store.commit(commit)
  }

  beginRecord(): void {}

  wrote(bytes: number): void {
    const at = this.#environment.wallClockMs()
    const number = Math.floor(at / minuteMs)
    let minute = this.#minutes.get(number)
    if (minute === undefined) this.#minutes.set(number, (minute = { bytes: 0, count: 0, moment: 0 }))
    minute.bytes += bytes
    minute.count++
    // Counting from the start of the minute keeps the sum exact.
    minute.moment += bytes * (at - number * minuteMs)
  }

  compact(): Promise<void> {
    return Promise.resolve()
  }

  async *amounts(): AsyncGenerator<StoredAmount> {
    for (const [number, { bytes, count, moment }] of this.#minutes) {
      const at = number * minuteMs + (bytes === 0 ? 0 : moment / bytes)
      yield { at, bytes, count, writtenBytes: bytes }
    }
  }
}
