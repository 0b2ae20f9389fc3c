import { Buffer } from 'node:buffer'
import { handlerLimits } from '../limits.js'
import type { Budget } from './concurrency-limit.js'
import type { HttpRequest } from './http-messages.js'
import { HttpError } from '../http-error.js'

/**
 * Reads a JSON body. It checks the headers first, and holds at most `maxBytes` and one piece in memory. The
 * bytes of the result are taken from the budget, and the caller must return them.
 *
 * @throws HttpError `UNSUPPORTED_MEDIA_TYPE`, `BODY_TOO_LARGE`, or `QUOTA` if the budget is exhausted.
 */
export async function readBody(
  httpRequest: HttpRequest,
  maxBytes: number,
  budget: Budget,
): Promise<Uint8Array> {
  checkJson(httpRequest)
  const announced = Number(httpRequest.header('content-length') ?? 0)
  if (announced > maxBytes) throw bodyTooLarge(maxBytes)
  let body: Uint8Array | undefined
  let size = 0
  try {
    await httpRequest.readBody((piece) => {
      const needed = size + piece.byteLength
      if (needed > maxBytes) throw bodyTooLarge(maxBytes)
      budget.take(piece.byteLength)
      // Most bodies are one piece.
      if (body === undefined && needed >= announced) body = piece
      else {
        body = grown(body, size, needed)
        body.set(piece, size)
      }
      size = needed
    })
  } catch (error) {
    budget.give(size)
    throw error
  }
  return body?.subarray(0, size) ?? new Uint8Array(0)
}

/**
 * Returns a buffer of at least `needed` bytes that starts with the first `size` bytes of `body`. The buffer
 * grows as bytes arrive, because a client may announce a large body and never send it.
 */
function grown(body: Uint8Array | undefined, size: number, needed: number): Uint8Array {
  if (body !== undefined && needed <= body.byteLength) return body
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * size, handlerLimits.firstBodyBytes))
  if (body !== undefined) larger.set(body.subarray(0, size))
  return larger
}

/** Requires uncompressed JSON in UTF-8. A body without a content type is refused. */
function checkJson(httpRequest: HttpRequest): void {
  const type = httpRequest.header('content-type') ?? ''
  if (
    type !== 'application/json' &&
    !/^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim())
  )
    throw unsupported('content-type', 'must be application/json')
  checkIdentity(httpRequest)
}

/**
 * Requires uncompressed bytes.
 *
 * @throws HttpError `UNSUPPORTED_MEDIA_TYPE`
 */
export function checkBytes(httpRequest: HttpRequest): void {
  if ((httpRequest.header('content-type') ?? '').trim().toLowerCase() !== 'application/octet-stream')
    throw unsupported('content-type', 'must be application/octet-stream')
  checkIdentity(httpRequest)
}

function checkIdentity(httpRequest: HttpRequest): void {
  if ((httpRequest.header('content-encoding') ?? 'identity').toLowerCase() !== 'identity')
    throw unsupported('content-encoding', 'must be identity')
}

function unsupported(field: string, message: string): HttpError {
  return new HttpError('UNSUPPORTED_MEDIA_TYPE', `${field}: ${message}`, { field })
}

function bodyTooLarge(maxBytes: number): HttpError {
  return new HttpError('BODY_TOO_LARGE', `the body is over ${maxBytes} bytes`, { limit: String(maxBytes) })
}
