import type { CallableOperation } from '../../engine/contract.js'
import { HttpError } from './http-error.js'

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
  throw new HttpError('TOO_LARGE', `${field}: over ${limit} bytes in one response`, { field, limit })
}
