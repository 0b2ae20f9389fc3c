import { parseSize } from '../base/input.js'
import { DigestTable } from '../base/digest-table.js'
import { EngineError } from '../base/errors.js'
import { Shape } from '../base/shape.js'

/**
 * Limits on the bytes of contents: files, extended attributes, large cache values and git objects. Names,
 * events and other records do not count, and neither do other bytes in the store's own files.
 */
export interface Budgets {
  /** The bytes of all tenants together. Content that two tenants have counts twice. */
  readonly storeBytes?: number
  /** The bytes of each tenant. On a durable store, the same content counts once. */
  readonly tenantBytes?: number
  /**
   * The bytes that the changes of each session wrote. Content counts each time it is written. A fork starts
   * at zero.
   */
  readonly sessionBytes?: number
}

export type BudgetName = keyof Budgets

const budgetsShape = new Shape<Budgets>({ storeBytes: true, tenantBytes: true, sessionBytes: true })

/** A blob that is about to be stored. */
export interface BudgetedBlob {
  readonly hash: string
  readonly length: number
}

interface TenantBytes {
  /** The contents counted so far. Undefined if content counts each time it is written. */
  readonly known: DigestTable | undefined
  bytes: number
}

/**
 * Counts the bytes that tenants have stored, in memory. The counts are exact once they are loaded, and cheap
 * to check on each write.
 */
export class ByteBudgets {
  readonly #storeBytes: number
  readonly #tenantBytes: number
  readonly #countsOnce: boolean
  #tenants = new Map<string, TenantBytes>()
  #bytes = 0
  /** The new counts during a recount. */
  #next: ByteBudgets | undefined
  #recounting: Promise<void> = Promise.resolve()

  constructor({ storeBytes, tenantBytes }: Budgets, countsOnce: boolean) {
    this.#storeBytes = storeBytes ?? Number.POSITIVE_INFINITY
    this.#tenantBytes = tenantBytes ?? Number.POSITIVE_INFINITY
    this.#countsOnce = countsOnce
  }

  /**
   * Checks the budgets for new contents. It counts nothing yet.
   *
   * @throws {EngineError} BUDGET when the contents would exceed a budget.
   */
  admit(tenantKey: string, blobs: readonly BudgetedBlob[]): void {
    const { known, bytes } = this.#tenant(tenantKey)
    let added = 0
    // Equal contents of one change count once too. Most changes have a single one.
    const seen = known !== undefined && blobs.length > 1 ? new Set<string>() : undefined
    for (const { hash, length } of blobs) {
      if (known?.has(hash) === true || seen?.has(hash) === true) continue
      seen?.add(hash)
      added += length
    }
    if (added === 0) return
    if (bytes + added > this.#tenantBytes) throw exhausted('tenantBytes', this.#tenantBytes, this.#countsOnce)
    if (this.#bytes + added > this.#storeBytes)
      throw exhausted('storeBytes', this.#storeBytes, this.#countsOnce)
  }

  /** Counts blobs. Call this when blobs are stored, and for blobs that were stored before. */
  add(tenantKey: string, blobs: readonly BudgetedBlob[]): void {
    this.#next?.add(tenantKey, blobs)
    const tenant = this.#tenant(tenantKey)
    for (const blob of blobs) {
      if (tenant.known !== undefined && tenant.known.add(blob.hash) === undefined) continue
      tenant.bytes += blob.length
      this.#bytes += blob.length
    }
  }

  /**
   * Recounts everything with `count`, one recount at a time. The old counts apply until the new ones are
   * complete.
   */
  recount(count: (budgets: ByteBudgets) => Promise<void>): Promise<void> {
    const recounted = this.#recounting.then(() => this.#recount(count))
    this.#recounting = recounted.catch(() => undefined)
    return recounted
  }

  async #recount(count: (budgets: ByteBudgets) => Promise<void>): Promise<void> {
    const next = new ByteBudgets({}, this.#countsOnce)
    this.#next = next
    try {
      await count(next)
      // `forget` was called meanwhile, so the recount may include blobs that were never stored.
      if (this.#next !== next) return
      this.#tenants = next.#tenants
      this.#bytes = next.#bytes
    } finally {
      if (this.#next === next) this.#next = undefined
    }
  }

  /**
   * Drops all counts, because some may include data that was not stored. The caller must count everything
   * again.
   */
  forget(): void {
    this.#next = undefined
    this.#tenants = new Map()
    this.#bytes = 0
  }

  #tenant(tenantKey: string): TenantBytes {
    let tenant = this.#tenants.get(tenantKey)
    if (tenant === undefined) {
      tenant = { known: this.#countsOnce ? new DigestTable(0, hashDigits) : undefined, bytes: 0 }
      this.#tenants.set(tenantKey, tenant)
    }
    return tenant
  }
}

/** The number of hash digits that ledgers keep. */
const hashDigits = 24

/**
 * The error BUDGET. `isFreed`: whether collections free bytes of this budget, which only those of durable
 * stores do.
 */
export function exhausted(budget: BudgetName, limit: number, isFreed: boolean): EngineError {
  const advice = isFreed
    ? 'delete files, checkpoints or sessions, then call engine.collect()'
    : 'a storage in memory counts every byte that was written, so open an engine with a larger budget'
  return new EngineError('BUDGET', `the budget ${budget} of ${limit} bytes is used up; ${advice}`, {
    budget,
    limit: String(limit),
  })
}

export function parseBudgets(budgets: Budgets | undefined): Budgets {
  if (budgets === undefined) return {}
  const copy = budgetsShape.readPart(budgets, 'budgets')
  for (const name of ['storeBytes', 'tenantBytes', 'sessionBytes'] as const) {
    const bytes = copy[name]
    if (bytes !== undefined) parseSize(`budgets.${name}`, bytes)
  }
  return copy
}
