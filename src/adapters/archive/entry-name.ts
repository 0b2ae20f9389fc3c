import { Buffer, isUtf8 } from 'node:buffer'
import { limits } from '../../engine/ports.js'
import { invalidArchive, limitExceeded, unsafePath } from './errors.js'

/** The destination of an entry. */
export interface EntryPath {
  /** The absolute, normalized path. */
  readonly path: string
  /** True if the name ends with a slash or with the part `.`. Such an entry must be a directory. */
  readonly isDirectory: boolean
}

/**
 * Parses and checks the name of an entry. Every name is checked here. Names are relative. Empty parts and `.`
 * are dropped, so `./` is the root. Throws UNSAFE_PATH for an invalid name, such as `../a`, and
 * LIMIT_EXCEEDED for a name that is too long or too deep.
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
    if (part === '..') throw unsafePath('a path contains ".."', name)
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

/** Whether text was valid UTF-8. False for text with U+FFFD, which replaces bytes that are not UTF-8. */
export function isDecoded(text: string): boolean {
  return !text.includes('\ufffd')
}

/**
 * Throws INVALID_ARCHIVE unless the text was valid UTF-8. For other bytes, the decoded name would be a
 * different one.
 */
export function checkDecoded(text: string, what: string, name: string): void {
  if (!isDecoded(text)) throw invalidArchive(`${what} is not UTF-8, or contains U+FFFD`, name)
}

/**
 * Parses the target of a symlink. Any path is allowed, because the session resolves it on use, within itself.
 */
export function parseTarget(bytes: Uint8Array, name: string): string {
  if (!isUtf8(bytes)) throw invalidArchive('the target of a symlink is not UTF-8', name)
  if (bytes.byteLength > limits.pathBytes)
    throw limitExceeded('the target of a symlink is too long', limits.pathBytes, name)
  const target = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  if (target === '' || target.includes('\0'))
    throw invalidArchive('the target of a symlink is empty or contains NUL', name)
  return target
}
