import * as z from 'zod'
import { bytes, flag, int64, integer, nothing, pageRequest, text, time, timeOrNone } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId: text }
const entry = { ...inSession, key: text }
const ttlSeconds = integer.exactOptional()
/** What is not there on the wire is empty. */
const newValue = bytes.prefault('')
const keys = z.array(text).prefault([])

export const cacheSchemas = defineSchemas({
  putCacheEntry: { request: z.object({ ...entry, value: newValue, ttlSeconds }), response: nothing },
  getCacheEntry: { request: z.object(entry), response: z.object({ value: bytes, found: flag }) },
  deleteCacheEntry: { request: z.object(entry), response: nothing },
  cacheEntryExists: { request: z.object(entry), response: z.object({ exists: flag }) },
  getCacheMetadata: {
    request: z.object(entry),
    response: z.object({
      key: text,
      sizeBytes: int64,
      createdAt: time,
      updatedAt: time,
      expiresAt: timeOrNone,
    }),
  },
  compareAndSetCacheEntry: {
    request: z.object({ ...entry, expectedValue: bytes.exactOptional(), newValue, ttlSeconds }),
    response: z.object({ swapped: flag, value: bytes, found: flag }),
  },
  listCacheKeys: {
    request: z.object({ ...inSession, prefix: text.exactOptional(), ...pageRequest }),
    response: z.object({ keys: z.array(text), nextPageToken: text }),
  },
  getCacheStats: {
    request: z.object(inSession),
    response: z.object({ entryCount: integer, sizeBytes: int64, hitCount: int64, missCount: int64 }),
  },
  batchGetCache: {
    request: z.object({ ...inSession, keys }),
    response: z.object({ entries: z.array(z.object({ key: text, value: bytes, found: flag })) }),
  },
  batchSetCache: {
    request: z.object({
      ...inSession,
      entries: z.array(z.object({ key: text, value: newValue, ttlSeconds })).prefault([]),
    }),
    response: nothing,
  },
  batchDeleteCache: {
    request: z.object({ ...inSession, keys }),
    response: z.object({ deletedCount: integer }),
  },
  deleteCacheByPrefix: {
    request: z.object({ ...inSession, prefix: text }),
    response: z.object({ deletedCount: integer }),
  },
})
