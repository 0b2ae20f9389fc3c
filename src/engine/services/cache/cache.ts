import { Buffer } from 'node:buffer'
import { itemAt } from '../../base/present.js'
import { formatTime } from '../../base/environment.js'
import { EngineError } from '../../base/errors.js'
import { Fault, whenLoaded } from '../../base/fault.js'
import { given, shown, tooLarge } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { runInSlices, TimeSlice } from '../../base/cooperative.js'
import { encodePageToken, parsePageSize, parsePageToken } from '../../base/paging.js'
import type { BlobRef } from '../../cas/blob.js'
import { StagedBlobs } from '../../cas/staging.js'
import type { Core } from '../../session/core.js'
import type { LiveSession } from '../../session/table/live.js'
import { touch } from '../../session/table/activity.js'
import { deadlineOf } from '../../session/table/deadline.js'
import { roughly, SessionIndex } from '../../session/table/session-index.js'
import { openSession } from '../../session/history/replay.js'
import { commitRecords, mutate, unchanged } from '../../session/mutation-queue.js'
import { keys } from '../../storage/keys.js'
import {
  decodeContent,
  encodeContent,
  EncodedValues,
  readContent,
  sameContent,
  type CacheContent,
} from './cache-content.js'
import { cacheEntryKind, type CacheRecord } from '../../records/cache-entry.js'
import { CacheEntries } from './cache-entries.js'
import type {
  CacheKeyPage,
  CacheMetadata,
  CacheStats,
  CacheSwap,
  CacheValue,
  CacheWrite,
  NamedCacheValue,
  ParsedCacheKeys,
} from './cache-requests.js'

/** The cache of a session in memory. */
interface CacheIndex {
  readonly entries: CacheEntries
  hitCount: number
  missCount: number
}

function addStored({ entries }: CacheIndex, json: string, core: Core, key: string): void {
  const { value, ttlSeconds, ...times } = cacheEntryKind.parse(json, key)
  const deadline =
    ttlSeconds === 0 ? Number.POSITIVE_INFINITY : deadlineOf(core, times.expiresAt, ttlSeconds * 1000)
  entries.restore({ ...times, content: decodeContent(value), deadline })
}

/**
 * Keys and values of sessions. A full cache drops expired entries first, then the least recently used ones.
 * For an entry that was read from storage, the last write counts as the last use.
 */
export class CacheService {
  /** The maximum bytes of the keys and values of one cache. */
  readonly maxBytes: number
  readonly #indexes: SessionIndex<CacheIndex>

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.maxBytes = maxBytes
    const bounds = { bytes: maxBytes, entries: limits.cacheEntries }
    this.#indexes = new SessionIndex<CacheIndex>(
      keys.cacheEntries,
      () => ({ entries: new CacheEntries(bounds), hitCount: 0, missCount: 0 }),
      addStored,
      {
        weigh: ({ entries }) => entries.size * roughly.record + entries.bytes,
        complete: ({ entries }) => entries.restored(),
      },
    )
  }

  /**
   * Stores all of the writes, or none. If a key occurs several times, its last write counts.
   *
   * @throws {EngineError} TOO_LARGE when the writes cannot fit into the cache together
   */
  put(core: Core, live: LiveSession, writes: readonly CacheWrite[], field: string): Promise<void> {
    let bytes = 0
    for (const { keyBytes, content } of writes) bytes += keyBytes + content.size
    if (bytes > this.maxBytes) throw tooLarge(field, 'bytes', this.maxBytes)
    const staged = stage(core, writes)
    const encoding =
      writes.length > 1 && bytes > limits.cacheBytesAtOnce
        ? core.journal.kept(() => {
            const contents = writes.map(({ content }) => content)
            return new EncodedValues(contents, core.environment)
          })
        : undefined
    return mutate(core, live, () => {
      const { entries } = this.#current(core, live)
      const blobs = staged?.blobs() ?? []
      core.store.admit?.(blobs)
      return this.#write(core, live, entries, writes, { staged, encoded: encoding?.get() })
    })
  }

  async get(core: Core, live: LiveSession, key: string): Promise<CacheValue> {
    const loaded = this.#loaded(core, live)
    // An await costs as much as the look-up, so it is avoided if possible.
    const content = look(loaded instanceof Promise ? await loaded : loaded, key)
    if (content === undefined) return { value: Buffer.alloc(0), found: false }
    const value = readContent(core.content, content)
    return { value: value instanceof Promise ? await value : value, found: true }
  }

  /**
   * A value that is requested twice counts twice towards the bound.
   *
   * @throws {EngineError} TOO_LARGE when the values exceed the bound of a cache
   */
  async getAll(core: Core, live: LiveSession, wanted: readonly string[]): Promise<NamedCacheValue[]> {
    // All values are looked up synchronously, so that no change comes between two of them.
    const found = await whenLoaded(() => {
      const index = this.#current(core, live)
      let bytes = 0
      for (const key of wanted) bytes += index.entries.get(key)?.content.size ?? 0
      if (bytes > this.maxBytes) throw tooLarge('keys', 'bytes of values', this.maxBytes)
      return wanted.map((key) => ({ key, content: look(index, key) }))
    })
    const blobs = found.flatMap(({ content }) => (typeof content?.bytes === 'object' ? content.bytes : []))
    return core.content.using(blobs, async () => {
      const values: NamedCacheValue[] = []
      const slice = new TimeSlice(core.environment)
      for (const { key, content } of found) {
        values.push({ key, ...(await readValue(core, content)) })
        if (slice.over) await slice.next()
      }
      return values
    })
  }

  async exists(core: Core, live: LiveSession, key: string): Promise<{ exists: boolean }> {
    const { entries } = await whenLoaded(() => this.#current(core, live))
    return { exists: entries.get(key) !== undefined }
  }

  /** @throws {EngineError} CACHE_KEY_NOT_FOUND when the entry does not exist */
  async metadata(core: Core, live: LiveSession, key: string): Promise<CacheMetadata> {
    const item = await whenLoaded(() => this.#current(core, live).entries.get(key))
    if (item === undefined)
      throw new EngineError('CACHE_KEY_NOT_FOUND', `the cache has no entry ${given(key)}`, {
        key: shown(key),
      })
    const { content, createdAt, updatedAt, expiresAt } = item
    return {
      key,
      sizeBytes: content.size,
      createdAt: formatTime(createdAt),
      updatedAt: formatTime(updatedAt),
      expiresAt: expiresAt === 0 ? '' : formatTime(expiresAt),
    }
  }

  compareAndSet(
    core: Core,
    live: LiveSession,
    write: CacheWrite,
    expected: CacheContent | undefined,
  ): Promise<CacheSwap> {
    if (write.keyBytes + write.content.size > this.maxBytes)
      throw tooLarge('newValue', 'bytes', this.maxBytes)
    const staged = stage(core, [write])
    return mutate(core, live, () => {
      const { entries } = this.#current(core, live)
      const before = entries.get(write.key)?.content
      const swapped =
        before === undefined
          ? expected === undefined
          : expected !== undefined && sameContent(before, expected)
      let committed: Promise<void>
      if (swapped) {
        const blobs = staged?.blobs() ?? []
        core.store.admit?.(blobs)
        committed = this.#write(core, live, entries, [write], { staged })
      } else {
        committed = unchanged(core, live)
        entries.use(write.key)
      }
      const now = swapped ? write.content : before
      return committed.then(async () => ({ swapped, ...(await readValue(core, now)) }))
    })
  }

  /** Deletes entries. Returns how many of the keys existed. */
  delete(core: Core, live: LiveSession, unwanted: readonly string[]): Promise<{ deletedCount: number }> {
    return mutate(core, live, () => this.#delete(core, live, this.#current(core, live).entries, unwanted))
  }

  /**
   * Deletes the entries that are expired at this time of the wall clock, and no others: the caller may have smaller caches,
   * or a clock that has jumped ahead.
   */
  async trim(core: Core, sessionId: string, wallMs: number): Promise<void> {
    const live = await openSession(core, sessionId)
    await mutate(core, live, () => {
      const { entries } = this.#indexes.get(core, live)
      const removing = entries.removeExpired(wallMs, core.environment.monotonicMs())
      if (removing.next().done !== true) throw new Fault(() => runInSlices(removing, core.environment))
      return this.#commit(core, live, entries)
    })
  }

  deleteByPrefix(core: Core, live: LiveSession, prefix: string): Promise<{ deletedCount: number }> {
    return mutate(core, live, () => {
      const { entries } = this.#current(core, live)
      return this.#delete(core, live, entries, entries.keys(prefix, Number.POSITIVE_INFINITY))
    })
  }

  async keys(core: Core, live: LiveSession, request: ParsedCacheKeys): Promise<CacheKeyPage> {
    const { prefix } = request
    const pageSize = parsePageSize(request.pageSize)
    const listing = `cache ${live.id} ${prefix}`
    const after = parsePageToken(listing, request.pageToken)
    const { entries } = await whenLoaded(() => this.#current(core, live))
    const found = entries.keys(prefix, pageSize + 1, after)
    if (found.length <= pageSize) return { keys: found, nextPageToken: '' }
    found.pop()
    return { keys: found, nextPageToken: encodePageToken(listing, itemAt(found, -1)) }
  }

  async stats(core: Core, live: LiveSession): Promise<CacheStats> {
    const { entries, hitCount, missCount } = await whenLoaded(() => this.#current(core, live))
    return { entryCount: entries.size, sizeBytes: entries.bytes, hitCount, missCount }
  }

  /**
   * The cache without expired entries. Throws a Fault if it must be loaded first, or if very many entries
   * expire at once.
   */
  #current(core: Core, live: LiveSession): CacheIndex {
    const index = this.#indexes.get(core, live)
    const { entries } = index
    const now = entries.nextExpiry === Number.POSITIVE_INFINITY ? 0 : core.environment.monotonicMs()
    if (entries.nextExpiry > now && !entries.isOver) return index
    const tidying = entries.tidy(now)
    if (tidying.next().done !== true) throw new Fault(() => runInSlices(tidying, core.environment))
    return index
  }

  /** Like {@link #current}, but returns a promise if the cache must be loaded first. */
  #loaded(core: Core, live: LiveSession): CacheIndex | Promise<CacheIndex> {
    try {
      return this.#current(core, live)
    } catch (thrown) {
      if (thrown instanceof Fault) return whenLoaded(() => this.#current(core, live))
      throw thrown
    }
  }

  #write(
    core: Core,
    live: LiveSession,
    entries: CacheEntries,
    writes: readonly CacheWrite[],
    ready: { readonly staged: StagedBlobs | undefined; readonly encoded?: readonly string[] | undefined },
  ): Promise<void> {
    const { environment } = core
    // A change of the cache has no event, so its use of the session must be noted here.
    touch(core, live)
    core.fineClockSpans.note(environment)
    const now = environment.wallClockMs()
    // The records by key. The last write of a key counts.
    const put = core.journal.kept(() => new Map<string, CacheRecord | string>())
    for (const [index, { key, content, ttlSeconds }] of writes.entries()) {
      const ttlMs = ttlSeconds * 1000
      const createdAt = entries.get(key)?.createdAt ?? now
      const expiresAt = ttlMs === 0 ? 0 : now + ttlMs
      const deadline = ttlMs === 0 ? Number.POSITIVE_INFINITY : environment.monotonicMs() + ttlMs
      const times = { createdAt, updatedAt: now, expiresAt }
      const order = entries.put({ key, content, ...times, deadline })
      if (put === undefined) continue
      const about = { key, order, ...times, ttlSeconds }
      const value = ready.encoded?.[index]
      put.set(key, value === undefined ? { ...about, value: encodeContent(content) } : recordOf(about, value))
    }
    entries.evict()
    return this.#commit(core, live, entries, put, ready.staged)
  }

  #delete(
    core: Core,
    live: LiveSession,
    entries: CacheEntries,
    unwanted: readonly string[],
  ): Promise<{ deletedCount: number }> {
    touch(core, live)
    let deletedCount = 0
    for (const key of unwanted) if (entries.remove(key)) deletedCount++
    return this.#commit(core, live, entries).then(() => ({ deletedCount }))
  }

  /** Stores the written records, and deletes those of deleted, expired and evicted entries. */
  #commit(
    core: Core,
    live: LiveSession,
    entries: CacheEntries,
    written: ReadonlyMap<string, CacheRecord | string> = new Map(),
    staged?: StagedBlobs,
  ): Promise<void> {
    const removed = entries.takeRemoved()
    const blobs = staged?.toCommit() ?? []
    const records = core.journal.kept(() => ({
      put: Array.from(written, ([key, record]) => [keys.cacheEntry(live.id, key), record] as const),
      del: removed.map((key) => keys.cacheEntry(live.id, key)),
    }))
    if (records !== undefined && records.put.length + records.del.length === 0) return live.acknowledged
    // Even a store that keeps nothing determines when other work gets a turn.
    return commitRecords(core, live, records ?? {}, blobs)
  }
}

/** A {@link CacheRecord} as JSON. `value` is already JSON. */
function recordOf(about: Omit<CacheRecord, 'value'>, value: string): string {
  return `${JSON.stringify(about).slice(0, -1)},"value":${value}}`
}

/** The blobs of large values, to be stored with the write; undefined if all values are small. */
function stage(core: Core, writes: readonly CacheWrite[]): StagedBlobs | undefined {
  const blobs: BlobRef[] = []
  for (const { content } of writes) if (typeof content.bytes !== 'string') blobs.push(...content.bytes)
  return blobs.length === 0 ? undefined : new StagedBlobs(blobs, core)
}

/** Looks up an entry. A hit counts as a use. */
function look(index: CacheIndex, key: string): CacheContent | undefined {
  const item = index.entries.use(key)
  if (item === undefined) index.missCount++
  else index.hitCount++
  return item?.content
}

async function readValue(core: Core, content: CacheContent | undefined): Promise<CacheValue> {
  if (content === undefined) return { value: Buffer.alloc(0), found: false }
  return { value: await readContent(core.content, content), found: true }
}
