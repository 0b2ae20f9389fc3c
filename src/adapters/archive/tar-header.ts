import type { Buffer } from 'node:buffer'
import { invalidArchive } from './errors.js'

/** A tar consists of blocks of this size. */
export const blockBytes = 512

/** The fields of a header block that a tree has a use for; pax records and long names may replace some. */
export interface TarHeader {
  readonly name: string
  readonly linkName: string
  /** The character that stands for the type of the entry. */
  readonly type: string
  readonly mode: number
  readonly size: number
  readonly mtimeSeconds: number
}

/** What a block is: by its checksum a header, else empty or damaged. */
export function kindOfBlock(block: Buffer): 'header' | 'empty' | 'damaged' {
  const sum = sumOf(block)
  if (sum === emptySum) return 'empty'
  return sum === numberAt(block, 148, 8) ? 'header' : 'damaged'
}

/**
 * Reads a header block: POSIX, GNU, or the format before them. INVALID_ARCHIVE for a number that is damaged or not a
 * safe integer, and for a negative size.
 */
export function readHeader(block: Buffer): TarHeader {
  const name = textAt(block, 0, 100)
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? textAt(block, 345, 155) : ''
  const fullName = prefix === '' ? name : `${prefix}/${name}`
  const number = (offset: number, length: number, what: string): number => {
    const value = numberAt(block, offset, length)
    if (value === undefined)
      throw invalidArchive(`the ${what} of an entry is damaged or out of range`, fullName)
    return value
  }
  const size = number(124, 12, 'size')
  if (size < 0) throw invalidArchive('the size of an entry is negative', fullName)
  return {
    name: fullName,
    linkName: textAt(block, 157, 100),
    type: String.fromCharCode(block[156]!),
    mode: number(100, 8, 'mode'),
    size,
    mtimeSeconds: number(136, 12, 'time'),
  }
}

/** The checksum counts its own field as spaces. */
const emptySum = 8 * 0x20

function sumOf(block: Buffer): number {
  let sum = emptySum
  for (let i = 0; i < 148; i++) sum += block[i]!
  for (let i = 156; i < blockBytes; i++) sum += block[i]!
  return sum
}

/** Text up to the first NUL. */
export function textAt(bytes: Buffer, offset: number, length: number): string {
  const end = bytes.subarray(0, offset + length).indexOf(0, offset)
  return bytes.toString('utf8', offset, end < 0 ? offset + length : end)
}

/** An octal number, or one in base 256; undefined when it is neither, or not a safe integer. */
function numberAt(block: Buffer, offset: number, length: number): number | undefined {
  if ((block[offset]! & 0x80) !== 0) return base256At(block, offset, length)
  const text = block.toString('latin1', offset, offset + length)
  // The rest of the field, behind the first space or NUL, may be anything.
  const digits = /^[ \0]*([0-7]*)(?:[ \0]|$)/.exec(text)?.[1]
  return digits === undefined || digits.length > maxOctalDigits ? undefined : Number.parseInt(`0${digits}`, 8)
}

/** What a field holds at most, so that each number is a safe integer. */
const maxOctalDigits = 12

/** Two's complement; the highest bit only says that the field is of this form. */
function base256At(block: Buffer, offset: number, length: number): number | undefined {
  const bits = BigInt(`0x${block.toString('hex', offset, offset + length)}`)
  const value = Number(BigInt.asIntN(8 * length - 1, bits))
  return Number.isSafeInteger(value) ? value : undefined
}
