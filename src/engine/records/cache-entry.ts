import { isCount, isListOf, isNumber, isText, isTupleOf } from '../base/checks.js'
import type { BlobRef, EncodedBlob } from '../cas/blob.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** A value in a record: base64, or blobs. */
export type EncodedContent = string | readonly (BlobRef | EncodedBlob)[]

/** An entry as stored, as JSON. Times are by the wall clock, in milliseconds since the epoch. */
export interface CacheRecord {
  readonly key: string
  /** The order of the last write. A higher number is a later write. */
  readonly order: number
  readonly createdAt: number
  readonly updatedAt: number
  /** 0: the entry never expires. */
  readonly expiresAt: number
  readonly ttlSeconds: number
  readonly value: EncodedContent
}

export const cacheEntryKind = new RecordKind<CacheRecord>({
  name: 'cache entry',
  prefix: keyPrefixes.cacheEntry,
  scope: 'session',
  bundle: { absent: 'a cache can be filled again' },
  checks: {
    key: isText,
    order: isNumber,
    createdAt: isNumber,
    updatedAt: isNumber,
    expiresAt: isNumber,
    ttlSeconds: isNumber,
    value: (value) => isText(value) || isListOf(isTupleOf(isText, isCount))(value),
  },
  references: ({ value }, _key, to) => {
    if (typeof value === 'string') return
    for (const [hash, length] of value as readonly EncodedBlob[]) to.blob(hash, length)
  },
})
