import { limits } from '../../base/limits.js'
/** Node's Buffer. It is undefined in browsers, where clients use these schemas too. */
const { Buffer } = globalThis as Partial<Pick<typeof globalThis, 'Buffer'>>

export function encodeBase64(bytes: Uint8Array): string {
  if (Buffer !== undefined)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  let text = ''
  for (let at = 0; at < bytes.length; at += limits.base64SliceBytes)
    text += String.fromCharCode(...bytes.subarray(at, at + limits.base64SliceBytes))
  return btoa(text)
}

/**
 * Decodes base64 in the standard or the URL-safe alphabet, with or without padding. Returns undefined for any
 * other text. Node's decoder does not report invalid input. It skips unknown ASCII characters, which makes
 * the result too short. It decodes the low byte of other characters, so these are checked for first.
 */
export function decodeBase64(text: string): Uint8Array | undefined {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  const digits = text.length - padding
  if (digits % 4 === 1 || (padding > 0 && text.length % 4 !== 0)) return undefined
  if (Buffer === undefined) return decodePortably(text.slice(0, digits))
  if (Buffer.byteLength(text) !== text.length) return undefined
  const { buffer, byteOffset, length } = Buffer.from(text, 'base64')
  return length === Math.floor((digits * 3) / 4) ? new Uint8Array(buffer, byteOffset, length) : undefined
}

function decodePortably(digits: string): Uint8Array | undefined {
  if (!/^[\w+/-]*$/.test(digits)) return undefined
  const binary = atob(digits.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}
