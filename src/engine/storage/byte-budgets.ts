import { parseSize } from '../base/input.js'
import { DigestTable } from '../base/digest-table.js'
import { EngineError } from '../base/errors.js'
import { Shape } from '../base/shape.js'

/**
 * The maximum bytes of contents: files, extended attributes, large cache values and git objects. Names,
 * events and other records do not count, nor do other bytes in the store's own files.
 */
export interface Budgets {
  /** Of all tenants together; a content that two of them have counts twice. */
  readonly storeBytes?: number
  /** Of each tenant, each content once. */
  readonly tenantBytes?: number
  /** That the changes of each session wrote, each as often as it was written; a fork starts with nothing. */
  readonly sessionBytes?: number
}

export type BudgetName = keyof Budgets

const budgetsShape = new Shape<Budgets>({ storeBytes: true, tenantBytes: true, sessionBytes: true })

/** A content on its way into a store. */
export interface BudgetedBlob {
  readonly hash: string
  readonly length: number
}

interface TenantBytes {
  /** Only where a content counts once. */
  readonly known: DigestTable | undefined
  bytes: number
}

/** What tenants keep, counted in memory: exact once it was loaded, and cheap to ask for each write. */
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
   * @throws {EngineError} BUDGET when they would be too much.
   */
  admit(tenantKey: string, blobs: readonly BudgetedBlob[]): void {
    const { known, bytes } = this.#tenant(tenantKey)
    let added = 0
    for (const blob of blobs) if (known?.has(blob.hash) !== true) added += blob.length
    if (added === 0) return
    if (bytes + added > this.#tenantBytes) throw exhausted('tenantBytes', this.#tenantBytes, this.#countsOnce)
    if (this.#bytes + added > this.#storeBytes)
      throw exhausted('storeBytes', this.#storeBytes, this.#countsOnce)
  }

  /** Call for blobs that are stored, or were stored before. */
  add(tenantKey: string, blobs: readonly BudgetedBlob[]): void {
    this.#next?.add(tenantKey, blobs)
    const tenant = this.#tenant(tenantKey)
    for (const blob of blobs) {
      if (tenant.known !== undefined && tenant.known.add(blob.hash) === undefined) continue
      tenant.bytes += blob.length
      this.#bytes += blob.length
    }
  }

  /** Recounts everything with `count`, one recount at a time; the old count applies until the new one is complete. */
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
      // Forgotten meanwhile: the recount may include blobs that were never stored.
      if (this.#next !== next) return
      this.#tenants = next.#tenants
      this.#bytes = next.#bytes
    } finally {
      if (this.#next === next) this.#next = undefined
    }
  }

  /** Drops all counts, because some may be of data that was not stored. The caller must count everything again. */
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

/** As many digits as ledgers have. */
const hashDigits = 24

/** `isFreed` is whether collections free bytes of budgets: only those of durable stores do. */
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
