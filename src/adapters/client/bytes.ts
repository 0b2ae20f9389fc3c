import { invalid, unreadable } from '../../engine/client-contract.js'
import { kindOf } from './kind-of.js'

const utf8 = new TextEncoder()

/**
 * Returns bytes unchanged, and encodes text as UTF-8.
 *
 * @throws EngineError `INVALID_ARGUMENT` for other types and for a lone surrogate.
 */
export function toBytes(content: Uint8Array | string, field: string): Uint8Array {
  if (content instanceof Uint8Array) return content
  if (typeof content !== 'string') throw invalid(field, notContent(content))
  if (!content.isWellFormed()) throw invalid(field, 'contains a lone surrogate')
  return utf8.encode(content)
}

function notContent(content: unknown): string {
  const advice =
    typeof content === 'object' && content !== null ? '. For JSON, pass JSON.stringify(value)' : ''
  return `must be a string or a Uint8Array; it is ${kindOf(content)}${advice}`
}

/**
 * Copies a caller's bytes, because the caller may change them afterwards.
 *
 * @throws EngineError `INVALID_ARGUMENT`
 */
export function copyBytes(bytes: Uint8Array, field: string): Uint8Array {
  if (!(bytes instanceof Uint8Array))
    throw invalid(field, `must be a Uint8Array; its type is ${typeof bytes}`)
  try {
    return new Uint8Array(bytes)
  } catch (cause) {
    throw unreadable(field, cause)
  }
}

export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const [only] = pieces
  if (only !== undefined && pieces.length === 1) return only
  const whole = new Uint8Array(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.byteLength
  }
  return whole
}
