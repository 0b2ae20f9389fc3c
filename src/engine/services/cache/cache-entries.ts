import { Buffer } from 'node:buffer'
import { firstWhere } from '../../base/ascending.js'
import { limits } from '../../base/limits.js'
import { present, itemAt } from '../../base/present.js'
import { compareUtf8 } from '../../base/order.js'
import type { Steps } from '../../base/cooperative.js'
import { noContent, type CacheContent } from './cache-content.js'
import { ExpiryQueue } from './expiry-queue.js'

/** The content and times of an entry. */
export interface CacheItem {
  readonly key: string
  readonly content: CacheContent
  /** By the wall clock, in milliseconds since the epoch, like `updatedAt` and `expiresAt`. */
  readonly createdAt: number
  readonly updatedAt: number
  /** The time as it is shown and stored; 0: the entry never expires. */
  readonly expiresAt: number
  /** By the monotonic clock; infinity: the entry never expires. */
  readonly deadline: number
}

export interface CacheBounds {
  /** The bytes of keys and values together. */
  readonly bytes: number
  readonly entries: number
}

/** An entry as it is now. An entry that was returned earlier may be out of date. */
export interface CacheEntry extends CacheItem {
  /** The number of the last write. Later writes have higher numbers. */
  readonly order: number
}

interface Node {
  item: CacheItem
  order: number
  readonly keyBytes: number
  /** The neighbours in the order of use. */
  older: Node | undefined
  newer: Node | undefined
  gone: boolean
}

/**
 * The entries of one cache, in memory: by key, by last use, by expiry, and, after the first listing, in the
 * order of their keys. It has no clock: expired entries stay until {@link tidy} has run.
 */
export class CacheEntries {
  readonly #bounds: CacheBounds
  readonly #byKey = new Map<string, Node>()
  readonly #expiries = new ExpiryQueue<Node>()
  /** Nodes in the order of their keys, including some removed ones; undefined until the first listing. */
  #sorted: Node[] | undefined
  /** Entries added since the last sort. */
  #unsorted: Node[] = []
  #oldest: Node | undefined
  #newest: Node | undefined
  #bytes = 0
  #order = 0
  #removed = new Set<string>()

  constructor(bounds: CacheBounds) {
    this.#bounds = bounds
  }

  get size(): number {
    return this.#byKey.size
  }

  /** The bytes of keys and values. */
  get bytes(): number {
    return this.#bytes
  }

  /** No entry expires before this time. */
  get nextExpiry(): number {
    return this.#expiries.next
  }

  /** Whether the cache exceeds its bounds. A cache that was read from the store may do so. */
  get isOver(): boolean {
    return this.#bytes > this.#bounds.bytes || this.size > this.#bounds.entries
  }

  get(key: string): CacheItem | undefined {
    return this.#byKey.get(key)?.item
  }

  /** Like {@link get}, but counts as a use. */
  use(key: string): CacheItem | undefined {
    const node = this.#byKey.get(key)
    if (node !== undefined && node !== this.#newest) {
      this.#unlink(node)
      this.#link(node)
    }
    return node?.item
  }

  /** Adds or replaces an entry and makes it the most recently used one. Returns the number of the write. */
  put(item: CacheItem): number {
    const order = ++this.#order
    const known = this.#byKey.get(item.key)
    if (known === undefined) this.#add(item, order)
    else {
      this.#bytes += item.content.size - known.item.content.size
      known.item = item
      known.order = order
      this.use(item.key)
      this.#awaitExpiry(known)
    }
    return order
  }

  /** Adds a stored entry. The order does not matter. Call {@link restored} after the last one. */
  restore({ order, ...item }: CacheEntry): void {
    this.#add(item, order)
  }

  /** Orders restored entries by their last write, which counts as their last use. */
  restored(): void {
    const nodes = [...this.#byKey.values()].sort((a, b) => a.order - b.order)
    this.#oldest = undefined
    this.#newest = undefined
    for (const node of nodes) this.#link(node)
    this.#order = nodes.at(-1)?.order ?? 0
  }

  remove(key: string): boolean {
    const node = this.#byKey.get(key)
    if (node === undefined) return false
    this.#remove(node)
    return true
  }

  /** Removes expired entries, then the least recently used until the cache is within its bounds. */
  *tidy(now: number): Steps<void> {
    for (let count = 1; this.#expiries.next <= now; count++) {
      const { deadline, item: node } = present(this.#expiries.take(), 'the next expiry')
      if (!node.gone && node.item.deadline === deadline) this.#remove(node)
      if (count % limits.cacheEntriesPerStep === 0) yield
    }
    for (let count = 1; this.isOver; count++) {
      this.#remove(present(this.#oldest, 'the oldest entry'))
      if (count % limits.cacheEntriesPerStep === 0) yield
    }
  }

  /** Removes the entries that are expired by both clocks. */
  *removeExpired(wallMs: number, monotonicMs: number): Steps<void> {
    let count = 0
    for (const node of this.#byKey.values()) {
      const { deadline, expiresAt } = node.item
      if (deadline > monotonicMs || expiresAt > wallMs) continue
      this.#remove(node)
      if (++count % limits.cacheEntriesPerStep === 0) yield
    }
  }

  /** Removes the least recently used entries until the cache is within its bounds. */
  evict(): void {
    while (this.isOver) this.#remove(present(this.#oldest, 'the oldest entry'))
  }

  /** The keys that were removed and not put again. Each is returned once. */
  takeRemoved(): string[] {
    if (this.#removed.size === 0) return []
    const removed = [...this.#removed]
    this.#removed = new Set()
    return removed
  }

  /** Keys that start with `prefix` and come after `after`, in the order of their bytes. */
  keys(prefix: string, limit: number, after = ''): string[] {
    const sorted = this.#sort()
    const found: string[] = []
    const start =
      compareUtf8(prefix, after) > 0 ? firstBehind(sorted, prefix, false) : firstBehind(sorted, after, true)
    for (let i = start; i < sorted.length && found.length < limit; i++) {
      const { item, gone } = itemAt(sorted, i)
      if (!item.key.startsWith(prefix)) break
      if (!gone) found.push(item.key)
    }
    return found
  }

  #add(item: CacheItem, order: number): void {
    const { key, content } = item
    const keyBytes = Buffer.byteLength(key)
    const node: Node = { item, order, keyBytes, older: undefined, newer: undefined, gone: false }
    this.#byKey.set(key, node)
    this.#bytes += keyBytes + content.size
    this.#removed.delete(key)
    this.#link(node)
    this.#awaitExpiry(node)
    if (this.#sorted === undefined) return
    this.#unsorted.push(node)
    if (this.#manyAreGone()) {
      this.#sorted = undefined
      this.#unsorted = []
    }
  }

  #remove(node: Node): void {
    this.#byKey.delete(node.item.key)
    this.#bytes -= node.keyBytes + node.item.content.size
    this.#unlink(node)
    this.#removed.add(node.item.key)
    node.gone = true
    // The node may stay in the queue of expiries or the sorted list, but its bytes must be freed.
    node.item = { ...node.item, content: noContent }
  }

  #link(node: Node): void {
    node.older = this.#newest
    node.newer = undefined
    if (this.#newest === undefined) this.#oldest = node
    else this.#newest.newer = node
    this.#newest = node
  }

  #unlink({ older, newer }: Node): void {
    if (older === undefined) this.#oldest = newer
    else older.newer = newer
    if (newer === undefined) this.#newest = older
    else newer.older = older
  }

  #awaitExpiry(node: Node): void {
    const { deadline } = node.item
    if (deadline === Number.POSITIVE_INFINITY) return
    this.#expiries.add(deadline, node)
    if (this.#expiries.size <= 2 * this.size + limits.cacheStaleEntries) return
    this.#expiries.clear()
    for (const one of this.#byKey.values()) {
      if (one.item.deadline !== Number.POSITIVE_INFINITY) this.#expiries.add(one.item.deadline, one)
    }
  }

  /** Sorts the nodes. This is quick for a sorted list with few new entries at its end. */
  #sort(): readonly Node[] {
    if (this.#sorted === undefined) this.#sorted = [...this.#byKey.values()].sort(byKey)
    else if (this.#unsorted.length > 0 || this.#manyAreGone()) {
      this.#sorted = [...this.#sorted, ...this.#unsorted].filter(({ gone }) => !gone).sort(byKey)
    }
    this.#unsorted = []
    return this.#sorted
  }

  #manyAreGone(): boolean {
    return (this.#sorted?.length ?? 0) + this.#unsorted.length > 2 * this.size + limits.cacheStaleEntries
  }
}

/** The index of the first key that is not below `key` (or, with `above`, that is above it). */
function firstBehind(sorted: readonly Node[], key: string, above: boolean): number {
  return firstWhere(sorted, ({ item }) => {
    const order = compareUtf8(item.key, key)
    return above ? order > 0 : order >= 0
  })
}

/** For ASCII keys both orders are equal, and comparing strings directly is many times as fast. */
function byKey(a: Node, b: Node): number {
  const [one, other] = [a.item.key, b.item.key]
  if (a.keyBytes > one.length || b.keyBytes > other.length) return compareUtf8(one, other)
  return one < other ? -1 : 1
}
