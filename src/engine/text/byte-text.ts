import { Buffer } from 'node:buffer'
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'

/**
 * Bytes as a string with one character for each byte. Searching and replacing in it keeps every byte, also bytes that
 * are not valid UTF-8.
 */
export type ByteText = string

export function byteTextOf(bytes: Uint8Array): ByteText {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

/** Whether bytes are not text. As in git: a NUL is among the first ones. */
export function isBinary(bytes: Uint8Array): boolean {
  return bytes.subarray(0, limits.binaryCheckBytes).includes(0)
}

/** Whether a text has too many lines for a comparison. */
export function hasManyLines(bytes: Uint8Array): boolean {
  let count = 0
  for (let at = bytes.indexOf(lf); at >= 0; at = bytes.indexOf(lf, at + 1))
    if (++count > limits.diffFileLines) return true
  return false
}

const lf = 0x0a

/** Text in UTF-8, as one character for each byte. */
export function encodeText(text: string): ByteText {
  return Buffer.from(text).toString('latin1')
}

export function bytesOf(text: ByteText): Buffer {
  return Buffer.from(text, 'latin1')
}

/** The text that the bytes encode in UTF-8. A byte that is not valid becomes U+FFFD. */
export function decodeText(text: ByteText): string {
  return bytesOf(text).toString('utf8')
}

/** The mark at the start of some files: U+FEFF in UTF-8. */
export const byteOrderMark: ByteText = '\u00ef\u00bb\u00bf'

/** The text without a byte order mark at its start. */
export function withoutMark(text: ByteText): ByteText {
  return text.startsWith(byteOrderMark) ? text.slice(byteOrderMark.length) : text
}

/** The line ends of a text. `mixed`: both. `none`: it has no line end. */
export type LineEnding = 'LF' | 'CRLF' | 'mixed' | 'none'

/** The line end of a text that has only one kind. */
export function lineEndingOf(text: ByteText): LineEnding {
  let crlf = 0
  let lf = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (text.charCodeAt(at - 1) === 13) crlf++
    else lf++
    if (crlf > 0 && lf > 0) return 'mixed'
  }
  if (crlf > 0) return 'CRLF'
  return lf > 0 ? 'LF' : 'none'
}

/** The text with `\n` in place of each `\r\n`. */
export function withoutCarriageReturns(text: ByteText): ByteText {
  return text.includes('\r\n') ? text.replaceAll('\r\n', '\n') : text
}

/** The line end that most lines of the text have; '' without any. */
export function* usualLineEnd(text: ByteText): Steps<'' | '\n' | '\r\n', undefined> {
  let crlf = 0
  let lf = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (text.charCodeAt(at - 1) === 13) crlf++
    else lf++
    if ((crlf + lf) % limits.charactersPerLook === 0) yield
  }
  if (crlf + lf === 0) return ''
  return crlf > lf ? '\r\n' : '\n'
}
