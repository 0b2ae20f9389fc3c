/** Node's, where there is one: clients in browsers take their schemas from here too. */
const { Buffer } = globalThis as Partial<Pick<typeof globalThis, 'Buffer'>>

/** How many bytes become text at once: each is an argument. */
const sliceBytes = 0x2000

export function encodeBase64(bytes: Uint8Array): string {
  if (Buffer !== undefined)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  let text = ''
  for (let at = 0; at < bytes.length; at += sliceBytes)
    text += String.fromCharCode(...bytes.subarray(at, at + sliceBytes))
  return btoa(text)
}

/**
 * The alphabet for URLs and missing padding are understood too. Undefined for what is no base64: Node's decoder
 * passes over what it does not know, which shows in the length, and takes the low bytes of characters beyond
 * ASCII, which are looked for.
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
