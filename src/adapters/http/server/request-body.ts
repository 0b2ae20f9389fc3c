import { Buffer } from 'node:buffer'
import type { Admission } from './admission.js'
import type { Exchange } from './exchange.js'
import { HttpError } from '../http-error.js'

/** The memory that a body gets first; it doubles as the body comes in. */
const firstBytes = 64 * 1024

/**
 * Reads a body of JSON. UNSUPPORTED_MEDIA_TYPE and BODY_TOO_LARGE as far as headers tell before anything is read,
 * and while it is read: never more than `maxBytes` and a piece are held. The bytes of what it gives are taken of
 * the budget, for the caller to give back; QUOTA where there is no room.
 */
export async function readBody(exchange: Exchange, maxBytes: number, budget: Admission): Promise<Uint8Array> {
  checkJson(exchange)
  const announced = Number(exchange.header('content-length') ?? 0)
  if (announced > maxBytes) throw bodyTooLarge(maxBytes)
  let body: Uint8Array | undefined
  let size = 0
  try {
    await exchange.readBody((piece) => {
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

/** Memory for `needed` bytes, with the first `size` ones of `body`. An announced size gets none before it comes. */
function grown(body: Uint8Array | undefined, size: number, needed: number): Uint8Array {
  if (body !== undefined && needed <= body.byteLength) return body
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * size, firstBytes))
  if (body !== undefined) larger.set(body.subarray(0, size))
  return larger
}

/** JSON in UTF-8, not compressed; a body without a type is refused. */
function checkJson(exchange: Exchange): void {
  const type = exchange.header('content-type') ?? ''
  if (
    type !== 'application/json' &&
    !/^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim())
  )
    throw unsupported('content-type', 'must be application/json')
  checkIdentity(exchange)
}

/** Bytes, not compressed. UNSUPPORTED_MEDIA_TYPE. */
export function checkBytes(exchange: Exchange): void {
  if ((exchange.header('content-type') ?? '').trim().toLowerCase() !== 'application/octet-stream')
    throw unsupported('content-type', 'must be application/octet-stream')
  checkIdentity(exchange)
}

function checkIdentity(exchange: Exchange): void {
  if ((exchange.header('content-encoding') ?? 'identity').toLowerCase() !== 'identity')
    throw unsupported('content-encoding', 'must be identity')
}

function unsupported(field: string, message: string): HttpError {
  return new HttpError('UNSUPPORTED_MEDIA_TYPE', `${field}: ${message}`, { field })
}

function bodyTooLarge(maxBytes: number): HttpError {
  return new HttpError('BODY_TOO_LARGE', `the body is over ${maxBytes} bytes`, { limit: String(maxBytes) })
}
