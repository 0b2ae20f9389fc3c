import { firstAtLeast } from '../../base/ascending.js'
import { itemAt } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import { sessionKind, type SessionRecord } from '../../records/session.js'
import { keyPrefixes, keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import type { Fence } from '../../storage/fence.js'
import type { Store, StoreCommit } from '../../storage/store.js'
import { wrapped } from '../../storage/wrapped-store.js'

/** The sessions of one tenant by their tags. A session keeps the tags that it was created with. */
class TenantTags {
  /** Ids in ascending order, by `key=value`. They may include sessions in `#deleted`. */
  readonly #ids = new Map<string, string[]>()
  /** Sessions that were deleted since the ids were last cleaned. */
  readonly #deleted = new Set<string>()
  /** The number of ids in all lists. */
  entries = 0

  /** Adds a session that was read from the store. */
  addRead(record: SessionRecord): void {
    if (record.deletedAt === undefined) this.#add(record)
  }

  /** Notes a session whose record is stored from now on. */
  note(record: SessionRecord): void {
    if (record.deletedAt !== undefined) return this.delete(record.id)
    this.#deleted.delete(record.id)
    this.#add(record)
  }

  delete(id: string): void {
    this.#deleted.add(id)
    if (this.#deleted.size > this.entries / 2 + limits.recordsPerScan) this.#clean()
  }

  after(tag: string, id: string, count: number): string[] {
    const all = this.#ids.get(tag) ?? []
    const found: string[] = []
    for (let index = firstAtLeast(all, `${id}\0`); index < all.length && found.length < count; index++) {
      const next = itemAt(all, index)
      if (!this.#deleted.has(next)) found.push(next)
    }
    return found
  }

  #add({ id, tags }: SessionRecord): void {
    for (const [key, value] of Object.entries(tags)) {
      const tag = `${key}=${value}`
      const ids = this.#ids.get(tag)
      const index = ids === undefined ? 0 : firstAtLeast(ids, id)
      if (ids?.[index] === id) continue
      if (ids === undefined) this.#ids.set(tag, [id])
      else ids.splice(index, 0, id)
      this.entries++
    }
  }

  #clean(): void {
    this.entries = 0
    for (const [tag, ids] of this.#ids) {
      const kept = ids.filter((id) => !this.#deleted.has(id))
      if (kept.length === 0) this.#ids.delete(tag)
      else this.#ids.set(tag, kept)
      this.entries += kept.length
    }
    this.#deleted.clear()
  }
}

export interface TagSearch {
  /** `key=value`. */
  readonly tag: string
  /** The id after which the search begins; '' for all sessions. */
  readonly after: string
  readonly count: number
  /** Whether to read all sessions of the tenant if there is no index yet. */
  readonly mayRead: boolean
}

/** The tenant whose sessions are searched. */
interface Tenant {
  readonly tenantKey: string
  readonly fence: Fence
  readonly store: Store
}

interface Indexed {
  readonly tags: TenantTags
  /** The epoch of the fence when the sessions were read. */
  readonly epoch: number
  /** Resolves once all sessions of the tenant are read. False: that failed. */
  readonly read: Promise<boolean>
}

/**
 * Finds sessions by a tag, so that a filtered list does not read all sessions of a tenant. The ids are in memory only. They
 * are read from the store when a list first needs them, and commits keep them up to date.
 *
 * An id is a hint: the record of the session decides whether it exists and has the tag. A session without an id here does
 * not have the tag.
 */
export class TagIndex {
  /** By the keys of tenants. Undefined: the tenant has too many tags. */
  readonly #tenants = new Map<string, Indexed | undefined>()
  readonly #maxEntries: number
  #entries = 0

  /** `budgetBytes` is the approximate memory for ids. */
  constructor(budgetBytes: number) {
    this.#maxEntries = Math.min(Math.floor(budgetBytes / limits.taggedSessionBytes), limits.taggedSessions)
  }

  /** The same store, with a note of each session that is stored or deleted. */
  watching(store: Store): Store {
    return wrapped(store, {
      commit: (commit: StoreCommit) => {
        if (this.#tenants.size > 0) this.#note(commit)
        return store.commit(commit)
      },
    })
  }

  /**
   * At most `count` ids of sessions that may have the tag `key=value`, in ascending order, after the id `after`. Undefined if
   * there is no index: it was not read yet and `mayRead` is false, the tenant has too many tags, or the store accepts no
   * commits.
   */
  async idsAfter(
    tenant: Tenant,
    { tag, after, count, mayRead }: TagSearch,
  ): Promise<readonly string[] | undefined> {
    const { tenantKey, fence } = tenant
    let indexed = this.#tenants.get(tenantKey)
    if (indexed === undefined && this.#tenants.has(tenantKey)) return undefined
    // A commit that failed later may have been noted.
    if (indexed?.epoch !== fence.epoch) {
      if (!mayRead) return undefined
      indexed = this.#begin(tenant)
    }
    const isRead = (await indexed.read) && indexed.epoch === fence.epoch
    return isRead ? indexed.tags.after(tag, after, count) : undefined
  }

  #begin(tenant: Tenant): Indexed {
    const { tenantKey, fence } = tenant
    this.#drop(tenantKey)
    const tags = new TenantTags()
    const read = this.#read(tenant, tags).catch(() => {
      if (this.#tenants.get(tenantKey)?.tags === tags) this.#drop(tenantKey)
      return false
    })
    const indexed = { tags, epoch: fence.epoch, read }
    this.#tenants.set(tenantKey, indexed)
    return indexed
  }

  /** Whether all sessions were read, and the index is still in use. */
  async #read(tenant: Tenant, tags: TenantTags): Promise<boolean> {
    // Later commits are noted. After this wait, reads see all earlier ones.
    await tenant.store.commit({})
    for await (const page of scanAll(tenant, keys.sessions(tenant.tenantKey))) {
      if (this.#tenants.get(tenant.tenantKey)?.tags !== tags) return false
      this.#change(tenant.tenantKey, () => {
        for (const [key, json] of page) tags.addRead(sessionKind.parse(json, key))
      })
    }
    return this.#tenants.get(tenant.tenantKey)?.tags === tags
  }

  #note({ put = [], del = [] }: StoreCommit): void {
    for (const [key, value] of put) {
      if (!key.startsWith(keyPrefixes.session)) continue
      const record = typeof value === 'string' ? sessionKind.parse(value, key) : (value as SessionRecord)
      this.#change(keys.tenantOfSession(key), (tags) => tags.note(record))
    }
    for (const key of del)
      if (key.startsWith(keyPrefixes.session))
        this.#change(keys.tenantOfSession(key), (tags) => tags.delete(keys.sessionIdOf(key)))
  }

  /** Changes the tags of a tenant, if they are indexed, and then drops what exceeds the bound. */
  #change(tenantKey: string, change: (tags: TenantTags) => void): void {
    const tags = this.#tenants.get(tenantKey)?.tags
    if (tags === undefined) return
    this.#entries -= tags.entries
    change(tags)
    this.#entries += tags.entries
    // The tenant that was indexed first goes first.
    for (const other of this.#tenants.keys()) {
      if (this.#entries <= this.#maxEntries) return
      if (other !== tenantKey) this.#drop(other)
    }
    if (this.#entries <= this.#maxEntries) return
    this.#drop(tenantKey)
    this.#tenants.set(tenantKey, undefined)
  }

  #drop(tenantKey: string): void {
    this.#entries -= this.#tenants.get(tenantKey)?.tags.entries ?? 0
    this.#tenants.delete(tenantKey)
  }
}
