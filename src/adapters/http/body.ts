import { Buffer } from 'node:buffer'
import type { Admission } from './admission.js'
import type { Exchange } from './exchange.js'
import { HttpError } from './http-error.js'

/** A body of more is read into memory of its announced size. */
const wholeBytes = 64 * 1024

/**
 * Reads a body of JSON. UNSUPPORTED_MEDIA_TYPE and BODY_TOO_LARGE as far as headers tell before anything is read,
 * and while it is read: never more than `maxBytes` and a piece are held. The bytes of what it gives are taken of
 * the budget, for the caller to give back; QUOTA where there is no room.
 */
export async function readBody(exchange: Exchange, maxBytes: number, budget: Admission): Promise<Uint8Array> {
  checkMediaType(exchange)
  const announced = Number(exchange.header('content-length') ?? 0)
  if (announced > maxBytes) throw bodyTooLarge(maxBytes)
  const pieces: Uint8Array[] = []
  // Into one piece of memory at once: a large one takes long to copy. What is not filled costs nothing.
  const whole = announced > wholeBytes ? Buffer.allocUnsafeSlow(announced) : undefined
  let size = 0
  try {
    await exchange.readBody((piece) => {
      if (size + piece.byteLength > (whole?.byteLength ?? maxBytes)) throw bodyTooLarge(maxBytes)
      budget.take(piece.byteLength)
      if (whole === undefined) pieces.push(piece)
      else whole.set(piece, size)
      size += piece.byteLength
    })
  } catch (error) {
    budget.give(size)
    throw error
  }
  if (whole !== undefined) return whole.subarray(0, size)
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, size)
}

/** JSON in UTF-8, not compressed; a body without a type is refused. */
function checkMediaType(exchange: Exchange): void {
  const type = exchange.header('content-type') ?? ''
  if (
    type !== 'application/json' &&
    !/^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim())
  )
    throw unsupported('content-type', 'must be application/json')
  if ((exchange.header('content-encoding') ?? 'identity').toLowerCase() !== 'identity')
    throw unsupported('content-encoding', 'must be identity')
}

function unsupported(field: string, message: string): HttpError {
  return new HttpError('UNSUPPORTED_MEDIA_TYPE', `${field}: ${message}`, { field })
}

function bodyTooLarge(maxBytes: number): HttpError {
  return new HttpError('BODY_TOO_LARGE', `the body is over ${maxBytes} bytes`, { limit: String(maxBytes) })
}
