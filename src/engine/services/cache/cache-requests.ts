import { Buffer } from 'node:buffer'
import { invalid } from '../../base/errors.js'
import { given, parseText, tooLarge, readList } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { pageNames, type PageRequest } from '../../base/paging.js'
import { toBytes } from '../../cas/staging.js'
import { toContent, type CacheContent } from './cache-content.js'

export interface CacheReference {
  /** 1 to 1,024 bytes; not `.` or `..`. */
  readonly key: string
}

export interface CachePutRequest extends CacheReference {
  /** At most 8 MiB; a string means its UTF-8 form. */
  readonly value: Uint8Array | string
  /** Whole seconds; 0 or absent: for ever. Above a year it is a year. */
  readonly ttlSeconds?: number
}

export interface CacheCompareAndSetRequest extends CacheReference {
  /** The value to compare with; absent: there must be no such entry. */
  readonly expectedValue?: Uint8Array | string
  readonly newValue: Uint8Array | string
  /** Of the new value, as in {@link CachePutRequest}. */
  readonly ttlSeconds?: number
}

export interface CacheKeysRequest extends PageRequest {
  /** Literal; '' by default. */
  readonly prefix?: string
}

export interface CacheValue {
  /** Empty where there is no such entry. */
  readonly value: Uint8Array
  readonly found: boolean
}

export interface NamedCacheValue extends CacheValue {
  readonly key: string
}

/** The entry as it is after the call. */
export interface CacheSwap extends CacheValue {
  readonly swapped: boolean
}

export interface CacheMetadata {
  readonly key: string
  /** Of the value. */
  readonly sizeBytes: number
  /** Of the first write since there was no such entry. */
  readonly createdAt: string
  /** Of the last write. */
  readonly updatedAt: string
  /** '': never. */
  readonly expiresAt: string
}

export interface CacheKeyPage {
  readonly keys: string[]
  /** '' on the last page. */
  readonly nextPageToken: string
}

export interface CacheStats {
  readonly entryCount: number
  /** Keys and values together, which the bound of a cache limits. */
  readonly sizeBytes: number
  /** Of `get` and `batchGet`, since the engine read the session. */
  readonly hitCount: number
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

/** Values are copied only as long as they can be in the cache together. */
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

/** `.` and `..` cannot be part of the path of a URL. */
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
