import { Buffer, isUtf8 } from 'node:buffer'
import { limits } from '../../engine/ports.js'
import { invalidArchive, limitExceeded, unsafePath } from './errors.js'

/** Where an entry goes. */
export interface EntryPath {
  /** Absolute and normal. */
  readonly path: string
  /** The name ends in a slash, or in a part that can only be a directory. */
  readonly isDirectory: boolean
}

/**
 * The one gate for names of entries. They are relative; empty parts and `.` are left out, so that `./` is the
 * root. UNSAFE_PATH for anything else that is no name, LIMIT_EXCEEDED for one that is too long or too deep.
 */
export function parseEntryName(name: string): EntryPath {
  if (name === '') throw unsafePath('an entry has no name', name)
  if (name.length > 2 * limits.pathBytes) throw limitExceeded('the path is too long', limits.pathBytes, name)
  if (name.includes('\0')) throw unsafePath('a name contains NUL', name)
  if (name.startsWith('/')) throw unsafePath('a path is absolute', name)
  const names: string[] = []
  let last = ''
  for (const part of name.split('/')) {
    last = part
    if (part === '' || part === '.') continue
    if (part === '..') throw unsafePath('a path leads upwards', name)
    if (part.length * 3 > limits.nameBytes && Buffer.byteLength(part) > limits.nameBytes)
      throw limitExceeded('a name is too long', limits.nameBytes, name)
    names.push(part)
  }
  if (names.length > limits.pathDepth) throw limitExceeded('the path is too deep', limits.pathDepth, name)
  const path = `/${names.join('/')}`
  if (Buffer.byteLength(path) > limits.pathBytes)
    throw limitExceeded('the path is too long', limits.pathBytes, name)
  return { path, isDirectory: last === '' || last === '.' }
}

/** False for text with U+FFFD, which is how bytes that are no UTF-8 are decoded. */
export function isDecoded(text: string): boolean {
  return !text.includes('\ufffd')
}

/** Names are UTF-8, nothing else: other bytes are no text, and turned into some would be another name. */
export function checkDecoded(text: string, what: string, name: string): void {
  if (!isDecoded(text)) throw invalidArchive(`${what} is not UTF-8, or contains U+FFFD`, name)
}

/** A symlink may lead to whatever it says: it is resolved when it is used, inside the session. */
export function parseTarget(bytes: Uint8Array, name: string): string {
  if (!isUtf8(bytes)) throw invalidArchive('the target of a symlink is not UTF-8', name)
  if (bytes.byteLength > limits.pathBytes)
    throw limitExceeded('the target of a symlink is too long', limits.pathBytes, name)
  const target = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  if (target === '' || target.includes('\0'))
    throw invalidArchive('the target of a symlink is empty or contains NUL', name)
  return target
}
