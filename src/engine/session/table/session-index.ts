import { itemAt } from '../../base/present.js'
import { shown } from '../../base/input.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { prefixEnd } from '../../storage/keys.js'
import type { Core } from '../core.js'
import type { LiveSession } from './live.js'

/** The approximate memory of a service's record without its parts of variable length, in bytes. */
export const roughly = { record: 400 } as const

/**
 * Caches records of one kind that belong to a session, from their first use until the session's eviction. The
 * cache is ahead of the store by the queued changes. When a write fails, it is dropped with the session, and
 * both are read again.
 */
export class SessionIndex<Index> {
  /** By {@link LiveSession.epoch}. */
  readonly #indexes = new WeakMap<object, Index>()
  /** Callers that arrive during a read wait for the same one. */
  readonly #loading = new WeakMap<object, Promise<void>>()
  readonly #prefix: (sessionId: string) => string
  readonly #make: () => Index
  readonly #weigh: (index: Index) => number
  readonly #complete: ((index: Index, core: Core) => void) | undefined
  #weighed = false
  readonly #add: (index: Index, json: string, core: Core, key: string) => void

  /**
   * `add` adds a record that was read to an index. Records come in the order of their keys. `weigh` returns
   * the approximate memory of an index, in bytes. `complete` is called after the last record.
   */
  constructor(
    prefix: (sessionId: string) => string,
    make: () => Index,
    add: (index: Index, json: string, core: Core, key: string) => void,
    {
      weigh,
      complete,
    }: { readonly weigh: (index: Index) => number; readonly complete?: (index: Index, core: Core) => void },
  ) {
    this.#prefix = prefix
    this.#make = make
    this.#add = add
    this.#weigh = weigh
    this.#complete = complete
  }

  /** Throws a Fault if the index must be read first. */
  get(core: Core, live: LiveSession): Index {
    const index = this.#indexes.get(live.epoch)
    if (index !== undefined) return index
    live.revive?.()
    if (!this.#weighed) {
      this.#weighed = true
      core.table.residency.weigh((one) => {
        const known = this.#indexes.get(one.epoch)
        return known === undefined ? 0 : this.#weigh(known)
      })
    }
    core.journal.mustLoad(() => this.#loaded(core, live))
    const empty = this.#make()
    this.#indexes.set(live.epoch, empty)
    return empty
  }

  #loaded(core: Core, live: LiveSession): Promise<void> {
    const { epoch } = live
    const known = this.#loading.get(epoch)
    if (known !== undefined) return known
    const loading = this.#load(core, live).finally(() => this.#loading.delete(epoch))
    this.#loading.set(epoch, loading)
    return loading
  }

  async #load(core: Core, live: LiveSession): Promise<void> {
    const { epoch } = live
    const index = this.#make()
    const prefix = this.#prefix(live.id)
    for (let gte = prefix; ;) {
      const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: limits.recordsPerScan })
      for (const [key, json] of found) this.#restore(index, json, core, { sessionId: live.id, key })
      if (found.length < limits.recordsPerScan) break
      gte = `${itemAt(found, -1)[0]}\0`
    }
    this.#complete?.(index, core)
    // Another call may have loaded the index first and changed it since.
    if (!this.#indexes.has(epoch)) this.#indexes.set(epoch, index)
  }

  /**
   * Adds a stored record to the index.
   *
   * @throws {EngineError} DATA_LOSS when the record is damaged.
   */
  #restore(
    index: Index,
    json: string,
    core: Core,
    { sessionId, key }: { sessionId: string; key: string },
  ): void {
    try {
      this.#add(index, json, core, key)
    } catch (cause) {
      if (cause instanceof EngineError) throw cause
      throw new EngineError(
        'DATA_LOSS',
        `the stored record ${shown(key)} is damaged`,
        { sessionId, key },
        { cause },
      )
    }
  }
}
