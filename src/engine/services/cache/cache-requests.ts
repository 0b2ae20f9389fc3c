import { Buffer } from 'node:buffer'
import { invalid } from '../../base/errors.js'
import { given, parseText, tooLarge, readList } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { pageNames, type PageRequest } from '../../base/paging.js'
import { toBytes } from '../../cas/staging.js'
import { toContent, type CacheContent } from './cache-content.js'

/** Identifies an entry of a session's cache. */
export interface CacheReference {
  /** The key, 1 to 1,024 bytes; not `.` or `..`. */
  readonly key: string
}

/** The request of `session.cache.put`, and an entry of `batchSet`. */
export interface CachePutRequest extends CacheReference {
  /** The value, at most 8 MiB. A string means its UTF-8 bytes. Bytes are copied at the call. */
  readonly value: Uint8Array | string
  /** Whole seconds until the entry expires, at most a year; more counts as a year. 0, the default, means never. */
  readonly ttlSeconds?: number
}

/** The request of `session.cache.compareAndSet`. */
export interface CacheCompareAndSetRequest extends CacheReference {
  /** The value that the entry must have, compared byte by byte. Absent: the entry must not exist. */
  readonly expectedValue?: Uint8Array | string
  /** The value to set, at most 8 MiB. A string means its UTF-8 bytes. Bytes are copied at the call. */
  readonly newValue: Uint8Array | string
  /** Whole seconds until the entry expires, at most a year; more counts as a year. 0, the default, means never. */
  readonly ttlSeconds?: number
}

/** The request of `session.cache.keys`. */
export interface CacheKeysRequest extends PageRequest {
  /** Selects the keys that start with this text, at most 1,024 bytes; '', the default, selects all. */
  readonly prefix?: string
}

/** The result of reading one entry. */
export interface CacheValue {
  /** A copy of the value; empty if the entry does not exist. */
  readonly value: Uint8Array
  /** Whether the entry exists and has not expired. */
  readonly found: boolean
}

/** The result of reading one entry of a batch. */
export interface NamedCacheValue extends CacheValue {
  /** The key from the request. */
  readonly key: string
}

/** The result of `session.cache.compareAndSet`: the entry after the call. */
export interface CacheSwap extends CacheValue {
  /** Whether the call set the value. False if the entry did not have the expected value. */
  readonly swapped: boolean
}

/** The size and times of an entry. */
export interface CacheMetadata {
  /** The key from the request. */
  readonly key: string
  /** Bytes of the value, without the key. */
  readonly sizeBytes: number
  /** RFC 3339 time in UTC of the write that created the entry. */
  readonly createdAt: string
  /** RFC 3339 time in UTC of the last write. */
  readonly updatedAt: string
  /** RFC 3339 time in UTC when the entry expires; '' for never. */
  readonly expiresAt: string
}

/** One page of the keys of a session's cache. */
export interface CacheKeyPage {
  /** The keys of this page, in the order of their bytes. */
  readonly keys: string[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** The size of a session's cache, and how often reads found an entry. */
export interface CacheStats {
  /** Number of entries. */
  readonly entryCount: number
  /** Bytes of all keys and values. The engine's `cacheBytes` limits this number. */
  readonly sizeBytes: number
  /** Number of entries that `get` and `batchGet` found since the engine loaded the session into memory. */
  readonly hitCount: number
  /** Number of entries that `get` and `batchGet` did not find since the engine loaded the session into memory. */
  readonly missCount: number
}

/** A checked write, with a copy of its value. */
export interface CacheWrite {
  readonly key: string
  readonly keyBytes: number
  readonly content: CacheContent
  readonly ttlSeconds: number
}

const referenceShape = new Shape<CacheReference>({ key: true })

const putShape = new Shape<CachePutRequest>({ key: true, value: true, ttlSeconds: true })

const compareAndSetShape = new Shape<CacheCompareAndSetRequest>({
  key: true,
  expectedValue: true,
  newValue: true,
  ttlSeconds: true,
})

const keysShape = new Shape<CacheKeysRequest>({ prefix: true, ...pageNames })

const prefixShape = new Shape<{ readonly prefix: string }>({ prefix: true })

const batchKeysShape = new Shape<{ readonly keys: readonly string[] }>({ keys: true })

const batchShape = new Shape<{ readonly entries: readonly CachePutRequest[] }>({ entries: true })

export type ParsedCacheKeys = CacheKeysRequest & { readonly prefix: string }

export function parseCacheReference(request: CacheReference): string {
  return parseKey('key', referenceShape.read(request).key)
}

export function parseCachePut(request: CachePutRequest, field?: string): CacheWrite {
  const { key, value, ttlSeconds } =
    field === undefined ? putShape.read(request) : putShape.readPart(request, field)
  const within = (name: string): string => (field === undefined ? name : `${field}.${name}`)
  return parseWrite(key, value, ttlSeconds, within, 'value')
}

export function parseCompareAndSet(request: CacheCompareAndSetRequest): {
  readonly write: CacheWrite
  readonly expected: CacheContent | undefined
} {
  const { key, expectedValue, newValue, ttlSeconds } = compareAndSetShape.read(request)
  const expected =
    expectedValue === undefined ? undefined : toContent(parseValue('expectedValue', expectedValue))
  return { write: parseWrite(key, newValue, ttlSeconds, (name) => name, 'newValue'), expected }
}

export function parseCacheKeysRequest(request: CacheKeysRequest): ParsedCacheKeys {
  const { prefix = '', ...page } = keysShape.read(request)
  return { ...page, prefix: parseText('prefix', prefix, limits.cacheKeyBytes) }
}

export function parseCachePrefix(request: { readonly prefix: string }): string {
  const prefix = parseText('prefix', prefixShape.read(request).prefix, limits.cacheKeyBytes)
  if (prefix === '') throw invalid('prefix', 'must not be empty: an empty prefix would delete every entry')
  return prefix
}

export function parseCacheKeys(request: { readonly keys: readonly string[] }): string[] {
  return parseList('keys', batchKeysShape.read(request).keys).map((key, index) =>
    parseKey(`keys[${index}]`, key),
  )
}

/** Parses the entries. Stops copying values as soon as they cannot all fit into the cache. */
export function parseCacheBatch(
  request: { readonly entries: readonly CachePutRequest[] },
  maxBytes: number,
): CacheWrite[] {
  let bytes = 0
  return parseList('entries', batchShape.read(request).entries).map((entry, index) => {
    const write = parseCachePut(entry as CachePutRequest, `entries[${index}]`)
    bytes += write.keyBytes + write.content.size
    if (bytes > maxBytes) throw tooLarge('entries', 'bytes', maxBytes)
    return write
  })
}

function parseWrite(
  key: unknown,
  value: unknown,
  ttlSeconds: unknown,
  within: (name: string) => string,
  valueName: string,
): CacheWrite {
  const parsedKey = parseKey(within('key'), key)
  const seconds = parseTtl(within('ttlSeconds'), ttlSeconds)
  const content = toContent(parseValue(within(valueName), value))
  return { key: parsedKey, keyBytes: Buffer.byteLength(parsedKey), content, ttlSeconds: seconds }
}

/** Rejects `.` and `..`, which cannot be part of the path of a URL. */
function parseKey(field: string, key: unknown): string {
  const text = parseText(field, key, limits.cacheKeyBytes)
  if (text === '' || text === '.' || text === '..') throw invalid(field, 'must not be empty, "." or ".."')
  return text
}

function parseValue(field: string, value: unknown): Uint8Array {
  if (typeof value === 'string') parseText(field, value, limits.cacheValueBytes)
  const bytes = toBytes(value, field)
  if (bytes.byteLength > limits.cacheValueBytes) throw tooLarge(field, 'bytes', limits.cacheValueBytes)
  return bytes
}

function parseTtl(field: string, ttlSeconds: unknown = 0): number {
  if (typeof ttlSeconds !== 'number' || !Number.isInteger(ttlSeconds) || ttlSeconds < 0)
    throw invalid(field, `must be a whole number of seconds from 0; it is ${given(ttlSeconds)}`)
  return Math.min(ttlSeconds, limits.cacheSeconds)
}

function parseList(field: string, list: unknown): unknown[] {
  return readList(field, list, limits.batchOperations, 'entries')
}
