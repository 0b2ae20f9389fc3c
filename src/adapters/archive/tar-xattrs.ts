import { Buffer, isUtf8 } from 'node:buffer'
import { limits, type EntryAttributes } from '../../engine/ports.js'
import { isDecoded } from './entry-name.js'
import { invalidArchive, limitExceeded } from './errors.js'

/** The records of a pax header. Keys and values are text. */
export type PaxRecords = Readonly<Record<string, string>>

type Xattrs = NonNullable<EntryAttributes['xattrs']>

/**
 * Key prefixes. Most programs support the one for plain values. Programs that use libarchive support the one
 * for base64.
 */
const asIs = 'SCHILY.xattr.'
const inBase64 = 'LIBARCHIVE.xattr.'

/** Returns the pax records of extended attributes. Text is written unchanged, any other value in base64. */
export function xattrRecords(xattrs: Xattrs): Record<string, string> {
  const sorted = [...xattrs].sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(
    sorted.map(([name, value]) => {
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      const text = bytes.toString()
      if (isUtf8(bytes) && isDecoded(text)) return [asIs + encodeName(name), text]
      return [inBase64 + encodeURIComponent(name), bytes.toString('base64')]
    }),
  )
}

/**
 * Reads extended attributes. Returns undefined if there are none. A plain value that was not text was lost in
 * decoding, and is omitted.
 */
export function readXattrs(pax: PaxRecords): Xattrs | undefined {
  const xattrs = new Map<string, Uint8Array>()
  for (const [key, value] of Object.entries(pax)) {
    if (key.startsWith(asIs) && isDecoded(value))
      add(xattrs, decodeName(key.slice(asIs.length)), Buffer.from(value))
    else if (key.startsWith(inBase64))
      add(xattrs, decodeBase64Name(key.slice(inBase64.length)), Buffer.from(value, 'base64'))
  }
  return xattrs.size > 0 ? xattrs : undefined
}

function add(xattrs: Map<string, Uint8Array>, name: string, value: Buffer): void {
  if (name === '' || name.includes('\0')) throw invalidArchive('an extended attribute has no name')
  if (Buffer.byteLength(name) > limits.xattrNameBytes)
    throw limitExceeded('the name of an extended attribute is too long', limits.xattrNameBytes)
  if (value.length > limits.xattrValueBytes)
    throw limitExceeded('an extended attribute is too long', limits.xattrValueBytes)
  xattrs.set(name, Uint8Array.from(value))
  if (xattrs.size > limits.xattrsPerNode)
    throw limitExceeded('an entry has too many extended attributes', limits.xattrsPerNode)
}

/** A key ends at its first `=`, so GNU tar writes `=` in a name as `%3D`. */
function encodeName(name: string): string {
  return name.replaceAll('%', '%25').replaceAll('=', '%3D')
}

function decodeName(name: string): string {
  return name.replaceAll('%3D', '=').replaceAll('%25', '%')
}

function decodeBase64Name(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch (error) {
    throw invalidArchive('the name of an extended attribute is damaged', undefined, { cause: error })
  }
}
