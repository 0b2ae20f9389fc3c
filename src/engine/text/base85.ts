/** The text form of bytes in binary patches: five digits for each four bytes, at most 52 bytes in a line. */
import { Buffer } from 'node:buffer'

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~'
const bytesPerLine = 52

/** The lines of some bytes. Each begins with a letter for its number of bytes. Zeros fill up the last four bytes. */
export function base85Lines(bytes: Uint8Array): string[] {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += bytesPerLine) {
    const part = bytes.subarray(at, at + bytesPerLine)
    lines.push(lengthLetter(part.length) + encode(part))
  }
  return lines
}

/** The bytes of one line, or undefined if the line is malformed. */
export function base85Bytes(line: string): Buffer | undefined {
  const length = lengthOf(line.charCodeAt(0))
  const groups = (line.length - 1) / 5
  if (groups !== Math.ceil(length / 4) || groups === 0) return undefined
  const bytes = Buffer.allocUnsafe(groups * 4)
  for (let group = 0; group < groups; group++) {
    let value = 0
    for (let index = 0; index < 5; index++) {
      const digit = valueOf[line.charCodeAt(1 + group * 5 + index)] ?? -1
      if (digit < 0) return undefined
      value = value * digits.length + digit
    }
    if (value >= 2 ** 32) return undefined
    bytes.writeUInt32BE(value, group * 4)
  }
  return bytes.subarray(0, length)
}

const valueOf: Readonly<Record<number, number>> = Object.fromEntries(
  Array.from(digits, (digit, value) => [digit.charCodeAt(0), value]),
)

/** `A` to `Z` for 1 to 26 bytes, then `a` to `z`. */
function lengthLetter(length: number): string {
  return String.fromCharCode(length <= 26 ? 64 + length : 70 + length)
}

/** The number of bytes for a letter; 0 for another character. */
function lengthOf(code: number): number {
  if (code >= 65 && code <= 90) return code - 64
  return code >= 97 && code <= 122 ? code - 70 : 0
}

function encode(part: Uint8Array): string {
  const padded = Buffer.alloc(Math.ceil(part.length / 4) * 4)
  padded.set(part)
  const text: string[] = []
  for (let at = 0; at < padded.length; at += 4) {
    let value = padded.readUInt32BE(at)
    let group = ''
    for (let i = 0; i < 5; i++) {
      group = digits.charAt(value % digits.length) + group
      value = Math.floor(value / digits.length)
    }
    text.push(group)
  }
  return text.join('')
}
