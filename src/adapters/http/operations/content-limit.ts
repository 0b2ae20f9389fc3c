import * as z from 'zod'
import { schemas, type CallableOperation } from '../../../engine/contract.js'

import { HttpError } from '../http-error.js'

/**
 * The request, asking for no more of a file than a response may have and one byte: what is more than that shows by
 * that byte, and is never read.
 */
export function withinContentLimit(name: CallableOperation, request: object, maxBytes: number): object {
  if (name !== 'readFile') return request
  const { length = Infinity } = request as { readonly length?: number }
  return length <= maxBytes ? request : { ...request, length: maxBytes + 1 }
}

/** TOO_LARGE for more content than a response may have; parts of a file, or fewer keys, can be asked for. */
export function checkContent(name: CallableOperation, response: object, maxBytes: number): void {
  let bytes = 0
  if (name === 'readFile') bytes = (response as { readonly content: Uint8Array }).content.byteLength
  else if (name === 'batchGetCache') {
    for (const { value } of (response as { readonly entries: readonly { readonly value: Uint8Array }[] })
      .entries)
      bytes += value.byteLength
  }
  if (bytes <= maxBytes) return
  const field = name === 'readFile' ? 'length' : 'keys'
  const limit = String(maxBytes)
  throw new HttpError(
    'TOO_LARGE',
    `${field}: the response would have over ${limit} bytes; ask for fewer at once`,
    { field, limit },
  )
}

/**
 * The most bytes that a response with contents may have; of a list, the bytes that its entries usually have. 0 for
 * all other responses, which are small.
 */
export function expectedBytes(name: CallableOperation, request: object, maxContentBytes: number): number {
  if (name === 'readFile') {
    const { length = Infinity } = request as { readonly length?: number }
    return base64Bytes(Math.min(length, maxContentBytes))
  }
  if (name === 'batchGetCache') return base64Bytes(maxContentBytes)
  if (!listing.has(name)) return 0
  const { pageSize = 0 } = request as { readonly pageSize?: number }
  return entryBytes * (pageSize > 0 ? Math.min(pageSize, mostEntries) : usualEntries)
}

function base64Bytes(bytes: number): number {
  return Math.ceil(bytes / 3) * 4
}

/** Of a list: the bytes of an entry, and how many there are at most, and where the request does not say. */
const entryBytes = 1024
const mostEntries = 10_000
const usualEntries = 1000

const listing: ReadonlySet<string> = new Set(
  Object.entries(schemas).flatMap(([name, { response }]) =>
    Object.values((response as unknown as z.ZodObject).shape ?? {}).some(
      (field) => field instanceof z.ZodArray,
    )
      ? [name]
      : [],
  ),
)
