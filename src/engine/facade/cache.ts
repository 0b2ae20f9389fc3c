import type { CacheService } from '../services/cache/cache.js'
import {
  parseCacheBatch,
  parseCacheKeys,
  parseCacheKeysRequest,
  parseCachePrefix,
  parseCachePut,
  parseCacheReference,
  parseCompareAndSet,
  type CacheCompareAndSetRequest,
  type CacheKeyPage,
  type CacheKeysRequest,
  type CacheMetadata,
  type CachePutRequest,
  type CacheReference,
  type CacheStats,
  type CacheSwap,
  type CacheValue,
  type NamedCacheValue,
} from '../services/cache/cache-requests.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * Keys and values separate from the files, with an optional time to live. A cache holds 64 MiB of keys and values, or
 * the engine's `cacheBytes`, and 100,000 entries. When it is full, expired entries go first, then those unused
 * for the longest time: `get`, `batchGet`, `put`, `batchSet` and `compareAndSet` are use, and when the engine was opened
 * again the last write is the last use. Restores leave it as it is, forks start with an empty one, and events do not
 * mention it.
 *
 * All methods refuse keys over 1,024 bytes with TOO_LARGE.
 */
export class SessionCache {
  readonly #access: SessionAccess
  readonly #service: CacheService

  constructor(access: SessionAccess, service: CacheService) {
    this.#access = access
    this.#service = service
  }

  /**
   * Sets a value. TOO_LARGE for over 8 MiB, or for a value that can never fit into the cache.
   *
   * @example
   * await session.cache.put({ key: 'build/main', value: bundle, ttlSeconds: 3600 })
   */
  async put(request: CachePutRequest): Promise<void> {
    const write = parseCachePut(request)
    return this.#access.run('putCacheEntry', (live) =>
      this.#service.put(this.#access.core, live, [write], 'value'),
    )
  }

  /** A copy of the value; empty where there is none. */
  async get(request: CacheReference): Promise<CacheValue> {
    const key = parseCacheReference(request)
    return this.#access.look('getCacheEntry', (live) => this.#service.get(this.#access.core, live, key))
  }

  /** Also where there is no such entry. */
  async delete(request: CacheReference): Promise<void> {
    const key = parseCacheReference(request)
    await this.#access.run('deleteCacheEntry', (live) => this.#service.delete(this.#access.core, live, [key]))
  }

  /** Counts neither as use nor as hit or miss. */
  async exists(request: CacheReference): Promise<{ exists: boolean }> {
    const key = parseCacheReference(request)
    return this.#access.look('cacheEntryExists', (live) => this.#service.exists(this.#access.core, live, key))
  }

  /** Size and times of an entry; counts neither as use nor as hit or miss. CACHE_KEY_NOT_FOUND. */
  async metadata(request: CacheReference): Promise<CacheMetadata> {
    const key = parseCacheReference(request)
    return this.#access.look('getCacheMetadata', (live) =>
      this.#service.metadata(this.#access.core, live, key),
    )
  }

  /**
   * Sets a value if the entry is as the caller expects: of several concurrent calls, one succeeds. The
   * others learn by `swapped: false` and the entry as it is, not by an error. TOO_LARGE as `put`.
   *
   * @example
   * const { swapped } = await session.cache.compareAndSet({ key: 'leader', newValue: 'agent-1', ttlSeconds: 30 })
   */
  async compareAndSet(request: CacheCompareAndSetRequest): Promise<CacheSwap> {
    const { write, expected } = parseCompareAndSet(request)
    return this.#access.run('compareAndSetCacheEntry', (live) =>
      this.#service.compareAndSet(this.#access.core, live, write, expected),
    )
  }

  /** A page of the keys in the order of their bytes. INVALID_ARGUMENT for a token of another listing. */
  async keys(request: CacheKeysRequest = {}): Promise<CacheKeyPage> {
    const parsed = parseCacheKeysRequest(request)
    return this.#access.look('listCacheKeys', (live) => this.#service.keys(this.#access.core, live, parsed))
  }

  /** Every key, page by page. */
  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for (let pageToken: string | undefined; pageToken !== '';) {
      const page: CacheKeyPage = await this.keys(pageToken === undefined ? {} : { pageToken })
      yield* page.keys
      pageToken = page.nextPageToken
    }
  }

  /** The size of the cache, and its hits and misses. */
  async stats(): Promise<CacheStats> {
    return this.#access.look('getCacheStats', (live) => this.#service.stats(this.#access.core, live))
  }

  /**
   * Values as of one moment, in the order of the keys, misses included. TOO_LARGE for over 10,000 keys, or for values
   * that together are larger than a cache, which is possible only when keys are repeated.
   */
  async batchGet(request: { readonly keys: readonly string[] }): Promise<{ entries: NamedCacheValue[] }> {
    const keys = parseCacheKeys(request)
    return this.#access.look('batchGetCache', async (live) => ({
      entries: await this.#service.getAll(this.#access.core, live, keys),
    }))
  }

  /** Sets all values or none; the last one of a key counts. TOO_LARGE for over 10,000, or more than fits at once. */
  async batchSet(request: { readonly entries: readonly CachePutRequest[] }): Promise<void> {
    const writes = parseCacheBatch(request, this.#service.maxBytes)
    return this.#access.run('batchSetCache', (live) =>
      this.#service.put(this.#access.core, live, writes, 'entries'),
    )
  }

  /** Returns the number of deleted keys. TOO_LARGE for over 10,000. */
  async batchDelete(request: { readonly keys: readonly string[] }): Promise<{ deletedCount: number }> {
    const keys = parseCacheKeys(request)
    return this.#access.run('batchDeleteCache', (live) => this.#service.delete(this.#access.core, live, keys))
  }

  /** Deletes every entry whose key starts with this text, which must not be empty. */
  async deleteByPrefix(request: { readonly prefix: string }): Promise<{ deletedCount: number }> {
    const prefix = parseCachePrefix(request)
    return this.#access.run('deleteCacheByPrefix', (live) =>
      this.#service.deleteByPrefix(this.#access.core, live, prefix),
    )
  }
}
