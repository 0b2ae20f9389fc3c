import { Buffer } from 'node:buffer'
import { present, itemAt } from '../../base/present.js'
import { compareUtf8 } from '../../base/order.js'
import type { Steps } from '../../base/slices.js'
import { noContent, type CacheContent } from './cache-content.js'
import { ExpiryQueue } from './expiry-queue.js'

/** The contents of an entry. */
export interface CacheItem {
  readonly key: string
  readonly content: CacheContent
  /** By the wall clock, in milliseconds since the epoch, as is `updatedAt`. */
  readonly createdAt: number
  readonly updatedAt: number
  /** As it is shown and stored; 0: never. */
  readonly expiresAt: number
  /** By the monotonic clock; infinite: never. */
  readonly deadline: number
}

export interface CacheBounds {
  /** Keys and values together. */
  readonly bytes: number
  readonly entries: number
}

/** An entry as it is now: an entry returned earlier may have changed since. */
export interface CacheEntry extends CacheItem {
  /** Of the last write: later ones have higher numbers. */
  readonly order: number
}

interface Node {
  item: CacheItem
  order: number
  readonly keyBytes: number
  /** Neighbours by last use. */
  older: Node | undefined
  newer: Node | undefined
  gone: boolean
}

/** Stale expiries and keys are dropped when there are more of them than this and than entries. */
const slack = 64
/** Entries that are taken out in one step. */
const stepEntries = 1000

/**
 * The entries of one cache, in memory: by key, by last use, by expiry, and by the order of their keys once that was
 * asked for. It has no clock: expired entries stay until {@link tidy} has run.
 */
export class CacheEntries {
  readonly #bounds: CacheBounds
  readonly #byKey = new Map<string, Node>()
  readonly #expiries = new ExpiryQueue<Node>()
  /** Sorted, including some removed entries; undefined until the first listing. */
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

  /** Of keys and values. */
  get bytes(): number {
    return this.#bytes
  }

  /** Before this nothing is over. */
  get nextExpiry(): number {
    return this.#expiries.next
  }

  /** Whether the cache exceeds its bounds, as a stored one may. */
  get isOver(): boolean {
    return this.#bytes > this.#bounds.bytes || this.size > this.#bounds.entries
  }

  get(key: string): CacheItem | undefined {
    return this.#byKey.get(key)?.item
  }

  /** As {@link get}, and counts as use. */
  use(key: string): CacheItem | undefined {
    const node = this.#byKey.get(key)
    if (node !== undefined && node !== this.#newest) {
      this.#unlink(node)
      this.#link(node)
    }
    return node?.item
  }

  /** Adds an entry or replaces it, as the last one used; returns the number of the write. */
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

  /** Adds an entry that was stored, in any order; {@link restored} follows the last one. */
  restore({ order, ...item }: CacheEntry): void {
    this.#add(item, order)
  }

  /** The last use of a restored entry is its last write. */
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
      if (count % stepEntries === 0) yield
    }
    for (let count = 1; this.isOver; count++) {
      this.#remove(present(this.#oldest, 'the oldest entry'))
      if (count % stepEntries === 0) yield
    }
  }

  /** Removes the least recently used entries until the cache is within its bounds. */
  evict(): void {
    while (this.isOver) this.#remove(present(this.#oldest, 'the oldest entry'))
  }

  /** Keys that were taken out and not put again, once. */
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
    // It may stay where it waits to expire, or among the sorted ones; its bytes must not.
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
    if (this.#expiries.size <= 2 * this.size + slack) return
    this.#expiries.clear()
    for (const one of this.#byKey.values()) {
      if (one.item.deadline !== Number.POSITIVE_INFINITY) this.#expiries.add(one.item.deadline, one)
    }
  }

  /** Sorting is quick for a sorted run with few new entries after it. */
  #sort(): readonly Node[] {
    if (this.#sorted === undefined) this.#sorted = [...this.#byKey.values()].sort(byKey)
    else if (this.#unsorted.length > 0 || this.#manyAreGone()) {
      this.#sorted = [...this.#sorted, ...this.#unsorted].filter(({ gone }) => !gone).sort(byKey)
    }
    this.#unsorted = []
    return this.#sorted
  }

  #manyAreGone(): boolean {
    return (this.#sorted?.length ?? 0) + this.#unsorted.length > 2 * this.size + slack
  }
}

/** The first whose key is not below `key`, or above it. */
function firstBehind(sorted: readonly Node[], key: string, above: boolean): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const order = compareUtf8(sorted[middle]!.item.key, key)
    if (order < 0 || (above && order === 0)) low = middle + 1
    else high = middle
  }
  return low
}

/** Of ASCII both orders are the same, and that of strings is many times as fast. */
function byKey(a: Node, b: Node): number {
  const [one, other] = [a.item.key, b.item.key]
  if (a.keyBytes > one.length || b.keyBytes > other.length) return compareUtf8(one, other)
  return one < other ? -1 : 1
}
