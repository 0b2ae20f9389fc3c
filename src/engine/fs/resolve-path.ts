import type { PathLike } from 'node:fs'
import { argumentError, typeError, valueError } from './argument-errors.js'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Checks a path and returns it as text, spelled as the caller spelled it. Errors and results use this text.
 */
export function givenPath(path: unknown, name = 'path'): string {
  const text = typeof path === 'string' ? path : decodePath(path as PathLike, name)
  if (!text.includes('\0')) return text
  throw valueError(name, 'must be a string, Uint8Array, or URL without null bytes', path)
}

/**
 * Removes `.`, `..`, double and trailing slashes from an absolute path. A relative path is returned
 * unchanged; the engine rejects it.
 */
export function plainPath(given: string): string {
  if (!given.includes('//') && !given.includes('/.') && (given.length === 1 || !slashed(given))) return given
  return given.startsWith('/') ? resolvePath('/', given) : given
}

/** Resolves `.` and `..` in a path. A relative path starts at the directory `from`. */
export function resolvePath(from: string, path: string): string {
  const names: string[] = []
  for (const name of (path.startsWith('/') ? path : `${from}/${path}`).split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}

/** Whether a path ends with a slash, and so must be a directory. */
export function slashed(path: string): boolean {
  return path.length > 1 && path.charCodeAt(path.length - 1) === 47
}

/** Removes the last `levels` names from the path, which keeps the caller's spelling. It ends with a name then. */
export function ancestor(path: string, levels: number): string {
  const parts = path.split('/')
  let left = levels
  for (let name = parts.at(-1); parts.length > 1; name = parts.at(-1)) {
    if (name === '..') left++
    else if (name === '' && left === 0) break
    else if (name !== '.' && name !== '') left--
    if (left < 0) break
    parts.pop()
  }
  return parts.join('/')
}

function decodePath(path: PathLike, name: string): string {
  if (path instanceof Uint8Array) {
    try {
      return utf8.decode(path)
    } catch {
      throw valueError(name, 'must be UTF-8', path)
    }
  }
  if (path instanceof URL) {
    if (path.protocol !== 'file:')
      throw argumentError('ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file')
    if (path.hostname !== '')
      throw argumentError('ERR_INVALID_FILE_URL_HOST', 'File URL host must be "localhost" or empty on linux')
    if (/%2f/i.test(path.pathname)) {
      throw argumentError('ERR_INVALID_FILE_URL_PATH', 'File URL path must not include encoded / characters')
    }
    return decodeURIComponent(path.pathname)
  }
  throw typeError(name, 'of type string or an instance of Buffer or URL', path)
}
