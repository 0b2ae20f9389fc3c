import * as z from 'zod'
import { operations, schemas, type CallableOperation, type Operation } from '../../../engine/contract.js'
import { limits } from '../../../engine/ports.js'
import { HttpError } from '../http-error.js'
import { handlerLimits, type HttpLimits } from '../limits.js'

/**
 * Limits a read of a file to one byte more than a response may contain. If the result contains the extra
 * byte, the content is too large. The rest of it is never read.
 */
export function withinContentLimit(name: CallableOperation, request: object, maxBytes: number): object {
  if (!fileReads.has(name)) return request
  const { length = Infinity } = request as { readonly length?: number }
  return length <= maxBytes ? request : { ...request, length: maxBytes + 1 }
}

/**
 * @throws HttpError `TOO_LARGE` for more content than a response may contain. The caller can then request
 * less at a time.
 */
export function checkContent(name: CallableOperation, response: object, maxBytes: number): void {
  let bytes = 0
  if (fileReads.has(name) || name === 'readCommitFile')
    bytes = (response as { readonly content: Uint8Array }).content.byteLength
  else if (name === 'batchGetCache') {
    for (const { value } of (response as { readonly entries: readonly { readonly value: Uint8Array }[] })
      .entries)
      bytes += value.byteLength
  }
  if (bytes <= maxBytes) return
  const field = fileReads.has(name) ? 'length' : name === 'readCommitFile' ? 'path' : 'keys'
  const limit = String(maxBytes)
  throw new HttpError(
    'TOO_LARGE',
    `${field}: the response would have over ${limit} bytes; request fewer at a time`,
    { field, limit },
  )
}

/**
 * Returns the bytes to reserve for a request. For a response with contents, this is the largest possible
 * size. For work on texts, it is the memory of the work. For a list, it is the size of a large page: all lists that a tenant
 * requests at the same time are read before their sizes are known. For all other requests, which are small, it is 0.
 */
export function expectedBytes(
  name: CallableOperation,
  request: object,
  { responseContentBytes: maxContentBytes, allResponseBytes }: HttpLimits,
): number {
  if (fileReads.has(name)) {
    const { length = Infinity } = request as { readonly length?: number }
    return base64Bytes(Math.min(length, maxContentBytes))
  }
  if (name === 'batchGetCache' || name === 'readCommitFile') return base64Bytes(maxContentBytes)
  if (cacheReads.has(name)) return base64Bytes(limits.cacheValueBytes)
  if (textWork.has(name)) return handlerLimits.textWorkBytes
  if (previewing.has(name)) {
    const { dryRun = false, listChanges = false } = request as Partial<Record<string, boolean>>
    return dryRun || listChanges ? limits.listedPathBytes : 0
  }
  if (!listing.has(name)) return 0
  const { pageSize = 0 } = request as { readonly pageSize?: number }
  const entries = pageSize > 0 ? Math.min(pageSize, limits.pageSizeMax) : limits.pageSizeDefault
  const page = Math.max(limits.pageBytes, handlerLimits.entryBytes * entries)
  return Math.min(page, allResponseBytes * handlerLimits.mostReserved)
}

/** Reads of a range of a file. */
const fileReads: ReadonlySet<CallableOperation> = new Set(['readFile', 'readFileAt'])

/** Operations that return one value of the cache. */
const cacheReads: ReadonlySet<CallableOperation> = new Set(['compareAndSetCacheEntry', 'getCacheEntry'])

/** Operations that hold the texts of large files, and the lines of these texts, while they run. */
const textWork: ReadonlySet<CallableOperation> = new Set([
  'applyPatch',
  'blame',
  'diffFiles',
  'editFile',
  'grepFiles',
  'mergeSession',
  'readConflict',
  'rebaseSession',
])

/** Operations that list the changed paths on request. */
const previewing: ReadonlySet<CallableOperation> = new Set(['redo', 'restoreState', 'undo'])

function base64Bytes(bytes: number): number {
  return Math.ceil(bytes / 3) * 4
}

/** Reads with a list in their response. That of a change is at most as long as the list in its request. */
const listing: ReadonlySet<string> = new Set(
  Object.entries(schemas).flatMap(([name, { response }]) => {
    const { event }: Operation = operations[name as CallableOperation]
    const fields = Object.values((response as unknown as z.ZodObject).shape ?? {})
    return event === undefined && fields.some((field) => field instanceof z.ZodArray) ? [name] : []
  }),
)
