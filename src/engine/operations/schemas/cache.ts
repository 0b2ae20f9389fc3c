import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  bytes,
  flag,
  inBytes,
  int64,
  integer,
  named,
  nextPageToken,
  nothing,
  pageRequest,
  sessionId,
  text,
  time,
  timeOrNone,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId }
const key = text.describe(`1 to ${limits.cacheKeyBytes} bytes; not \`.\` or \`..\`.`)
const entry = { ...inSession, key }
const ttlSeconds = integer
  .meta({
    minimum: 0,
    description: `Seconds to live. A larger value than ${limits.cacheSeconds} counts as ${limits.cacheSeconds}. Absent or 0: no expiry.`,
  })
  .exactOptional()
const found = flag.describe('Whether the entry exists.')
/** The wire form may omit the value, which is then empty. */
const newValue = bytes.describe(`At most ${inBytes(limits.cacheValueBytes)}.`).prefault('')
const keys = z.array(key).describe(`At most ${limits.batchOperations}.`).prefault([])
const deletedCount = integer.describe('How many entries were deleted.')

export const cacheSchemas = defineSchemas({
  putCacheEntry: { request: z.object({ ...entry, value: newValue, ttlSeconds }), response: nothing },
  getCacheEntry: { request: z.object(entry), response: z.object({ value: bytes, found }) },
  deleteCacheEntry: { request: z.object(entry), response: nothing },
  cacheEntryExists: { request: z.object(entry), response: z.object({ exists: flag }) },
  getCacheMetadata: {
    request: z.object(entry),
    response: z.object({
      key: text,
      sizeBytes: int64.describe('Bytes of the value.'),
      createdAt: time,
      updatedAt: time,
      expiresAt: timeOrNone.describe('RFC 3339, or empty for an entry that does not expire.'),
    }),
  },
  compareAndSetCacheEntry: {
    request: z.object({
      ...entry,
      expectedValue: bytes
        .describe('The required current value. Absent: the entry must not exist.')
        .exactOptional(),
      newValue,
      ttlSeconds,
    }),
    response: z.object({
      swapped: flag.describe('Whether the value was set.'),
      value: bytes.describe('The value after the call.'),
      found,
    }),
  },
  listCacheKeys: {
    request: z.object({
      ...inSession,
      prefix: text.describe('Literal. Absent or empty: all keys.').exactOptional(),
      ...pageRequest,
    }),
    response: z.object({ keys: z.array(text), nextPageToken }),
  },
  getCacheStats: {
    request: z.object(inSession),
    response: z.object({
      entryCount: integer,
      sizeBytes: int64.describe('Bytes of all keys and values.'),
      hitCount: int64,
      missCount: int64,
    }),
  },
  batchGetCache: {
    request: z.object({ ...inSession, keys }),
    response: z.object({
      entries: z.array(named('CacheEntry', z.object({ key: text, value: bytes, found }))),
    }),
  },
  batchSetCache: {
    request: z.object({
      ...inSession,
      entries: z
        .array(named('CacheWrite', z.object({ key, value: newValue, ttlSeconds })))
        .describe(`At most ${limits.batchOperations}.`)
        .prefault([]),
    }),
    response: nothing,
  },
  batchDeleteCache: {
    request: z.object({ ...inSession, keys }),
    response: z.object({ deletedCount }),
  },
  deleteCacheByPrefix: {
    request: z.object({ ...inSession, prefix: text.describe('Literal, not empty.') }),
    response: z.object({ deletedCount }),
  },
})
