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
 * the engine's `cacheBytes`, and 100,000 entries. When it is full, expired entries are removed first, then the
 * entries unused for the longest time. `get`, `batchGet`, `put`, `batchSet` and `compareAndSet` count as use. After
 * the engine was opened again, the last write counts as the last use. Restores do not change the cache, forks start
 * with an empty one, and events do not mention it.
 *
 * All methods with a key fail with TOO_LARGE when it is over 1,024 bytes, and with INVALID_ARGUMENT when it is empty,
 * `.` or `..`.
 */
export class SessionCache {
  readonly #access: SessionAccess
  readonly #service: CacheService

  /** @internal */
  constructor(access: SessionAccess, service: CacheService) {
    this.#access = access
    this.#service = service
  }

  /**
   * Sets a value.
   *
   * @throws {EngineError} TOO_LARGE when the value is over 8 MiB, or can never fit into the cache.
   *
   * @example
   * await session.cache.put({ key: 'build/main', value: 'output', ttlSeconds: 3600 })
   */
  async put(request: CachePutRequest): Promise<void> {
    const write = parseCachePut(request)
    return this.#access.run('putCacheEntry', (live) =>
      this.#service.put(this.#access.core, live, [write], 'value'),
    )
  }

  /**
   * Reads a value. A missing entry gives an empty value with `found` false.
   *
   * @example
   * const { found, value } = await session.cache.get({ key: 'build/main' })
   */
  async get(request: CacheReference): Promise<CacheValue> {
    const key = parseCacheReference(request)
    return this.#access.look('getCacheEntry', (live) => this.#service.get(this.#access.core, live, key))
  }

  /**
   * Deletes an entry. A missing entry is no error.
   *
   * @example
   * await session.cache.delete({ key: 'build/main' })
   */
  async delete(request: CacheReference): Promise<void> {
    const key = parseCacheReference(request)
    await this.#access.run('deleteCacheEntry', (live) => this.#service.delete(this.#access.core, live, [key]))
  }

  /**
   * Whether an entry exists. The call counts neither as use nor as hit or miss.
   *
   * @example
   * const { exists } = await session.cache.exists({ key: 'build/main' })
   */
  async exists(request: CacheReference): Promise<{
    /** Whether the entry exists and has not expired. */
    exists: boolean
  }> {
    const key = parseCacheReference(request)
    return this.#access.look('cacheEntryExists', (live) => this.#service.exists(this.#access.core, live, key))
  }

  /**
   * Size and times of an entry. The call counts neither as use nor as hit or miss.
   *
   * @throws {EngineError} CACHE_KEY_NOT_FOUND when the cache has no entry with this key.
   *
   * @example
   * const { sizeBytes, expiresAt } = await session.cache.metadata({ key: 'build/main' })
   */
  async metadata(request: CacheReference): Promise<CacheMetadata> {
    const key = parseCacheReference(request)
    return this.#access.look('getCacheMetadata', (live) =>
      this.#service.metadata(this.#access.core, live, key),
    )
  }

  /**
   * Sets a value if the entry is as the caller expects. Of several concurrent calls, one succeeds. The others return
   * `swapped` false with the current entry, and do not fail.
   *
   * @throws {EngineError} TOO_LARGE when the value is over 8 MiB, or can never fit into the cache.
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

  /**
   * A page of the keys in the order of their bytes.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { keys, nextPageToken } = await session.cache.keys({ prefix: 'build/' })
   */
  async keys(request: CacheKeysRequest = {}): Promise<CacheKeyPage> {
    const parsed = parseCacheKeysRequest(request)
    return this.#access.look('listCacheKeys', (live) => this.#service.keys(this.#access.core, live, parsed))
  }

  /**
   * Every key, read page by page, in the order of their bytes.
   *
   * @example
   * for await (const key of session.cache) console.log(key)
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for (let pageToken: string | undefined; pageToken !== '';) {
      const page: CacheKeyPage = await this.keys(pageToken === undefined ? {} : { pageToken })
      yield* page.keys
      pageToken = page.nextPageToken
    }
  }

  /**
   * The size of the cache, and its hits and misses.
   *
   * @example
   * const { entryCount, sizeBytes } = await session.cache.stats()
   */
  async stats(): Promise<CacheStats> {
    return this.#access.look('getCacheStats', (live) => this.#service.stats(this.#access.core, live))
  }

  /**
   * Values as of one moment, misses included.
   *
   * @throws {EngineError} TOO_LARGE when there are over 10,000 keys, or values that together are larger than a cache,
   * which is possible only when keys are repeated.
   *
   * @example
   * const { entries } = await session.cache.batchGet({ keys: ['build/main', 'build/test'] })
   */
  async batchGet(request: {
    /** At most 10,000 keys. */
    readonly keys: readonly string[]
  }): Promise<{
    /** One for each key of the request, in its order. */
    entries: NamedCacheValue[]
  }> {
    const keys = parseCacheKeys(request)
    return this.#access.look('batchGetCache', async (live) => ({
      entries: await this.#service.getAll(this.#access.core, live, keys),
    }))
  }

  /**
   * Sets all values or none.
   *
   * @throws {EngineError} TOO_LARGE when there are over 10,000 entries, a value is over 8 MiB, or they do not fit
   * together.
   *
   * @example
   * await session.cache.batchSet({ entries: [{ key: 'a', value: 'one' }, { key: 'b', value: 'two' }] })
   */
  async batchSet(request: {
    /** At most 10,000 entries. Of several with one key, the last one counts. */
    readonly entries: readonly CachePutRequest[]
  }): Promise<void> {
    const writes = parseCacheBatch(request, this.#service.maxBytes)
    return this.#access.run('batchSetCache', (live) =>
      this.#service.put(this.#access.core, live, writes, 'entries'),
    )
  }

  /**
   * Deletes entries. Missing entries are no error.
   *
   * @throws {EngineError} TOO_LARGE when there are over 10,000 keys.
   *
   * @example
   * const { deletedCount } = await session.cache.batchDelete({ keys: ['build/main', 'build/test'] })
   */
  async batchDelete(request: {
    /** At most 10,000 keys. */
    readonly keys: readonly string[]
  }): Promise<{
    /** The number of deleted entries. Missing ones do not count. */
    deletedCount: number
  }> {
    const keys = parseCacheKeys(request)
    return this.#access.run('batchDeleteCache', (live) => this.#service.delete(this.#access.core, live, keys))
  }

  /**
   * Deletes every entry whose key starts with a text.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the prefix is empty.
   *
   * @example
   * const { deletedCount } = await session.cache.deleteByPrefix({ prefix: 'build/' })
   */
  async deleteByPrefix(request: {
    /** 1 to 1,024 bytes. */
    readonly prefix: string
  }): Promise<{
    /** The number of deleted entries. */
    deletedCount: number
  }> {
    const prefix = parseCachePrefix(request)
    return this.#access.run('deleteCacheByPrefix', (live) =>
      this.#service.deleteByPrefix(this.#access.core, live, prefix),
    )
  }
}
