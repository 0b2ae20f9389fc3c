import { given } from './input.js'
import { createHash, hash, type Hash } from 'node:crypto'
import { invalid } from './errors.js'

/** The SHA-256 as lower-case hex. */
export function sha256(content: Uint8Array | string): string {
  return hash('sha256', content)
}

export function sha256Stream(): Hash {
  return createHash('sha256')
}

export const emptyHash: string = sha256('')

/** The public form of a content hash: `sha256:<hex>`. */
export function formatHash(hex: string): string {
  return `sha256:${hex}`
}

/** The hex of an `expectedHash`; `''` (must not exist) stays `''`. */
export function parseExpectedHash(text: unknown, field = 'expectedHash'): string {
  if (text === '') return ''
  if (typeof text !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(text)) {
    throw invalid(field, `must be '' or sha256:<64 hex digits>; it is ${given(text)}`)
  }
  return text.slice('sha256:'.length)
}
