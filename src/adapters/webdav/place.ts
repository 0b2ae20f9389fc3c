import { splitTarget } from '../http/parts.js'
import { badRequest, DavError } from './dav-error.js'

/** The path of a request in the session. */
export interface Place {
  readonly path: string
  /** Whether the URL ends with a slash, as that of a directory does. */
  readonly isDirectory: boolean
}

/**
 * The path that the target of a request names. Each part is decoded once. Parts that other programs could take for
 * several parts, or for a parent, are refused.
 *
 * @throws DavError
 */
export function placeOf(target: string, prefix: string): Place {
  const { path } = splitTarget(target)
  if (path !== prefix && !path.startsWith(`${prefix}/`))
    throw new DavError(404, 'nothing is served at this path')
  const local = path.slice(prefix.length)
  // Node passes other bytes as characters of Latin-1, which would become another name.
  if (!/^[!-~]*$/.test(local) || local.includes('#')) throw invalidPath()
  const parts = local.split('/').slice(1)
  const isDirectory = parts.at(-1) === ''
  if (isDirectory) parts.pop()
  return { path: `/${parts.map(decodedPart).join('/')}`, isDirectory: isDirectory || parts.length === 0 }
}

function decodedPart(part: string): string {
  let name: string
  try {
    name = decodeURIComponent(part)
  } catch {
    throw invalidPath()
  }
  if (name === '' || name === '.' || name === '..' || /[/\0]/.test(name)) throw invalidPath()
  return name
}

function invalidPath(): DavError {
  return badRequest(
    'the path must be percent-encoded UTF-8, without empty parts, ".", ".." and encoded slashes or NUL',
  )
}

/**
 * The target of the header `Destination`, which is a path or a whole URL.
 *
 * @throws DavError if the URL is of another server
 */
export function destinationTarget(destination: string | undefined, host: string | undefined): string {
  if (destination === undefined || destination === '') throw badRequest('destination: the header is missing')
  if (destination.startsWith('/') && !destination.startsWith('//')) return destination
  const [, authority = '', target = ''] = /^https?:\/\/([^/?#]*)(.*)$/i.exec(destination) ?? []
  if (authority === '') throw badRequest('destination: must be a path, or an http or https URL')
  const name = authority.slice(authority.lastIndexOf('@') + 1)
  if (name.toLowerCase() !== host?.toLowerCase())
    throw new DavError(502, 'destination: must be on the same host as the request')
  return target === '' ? '/' : target
}

/** The path of a URL, which ends with a slash for a directory. */
export function hrefOf(prefix: string, path: string, isDirectory: boolean): string {
  const encoded = path.split('/').map(encodeURIComponent).join('/')
  return `${prefix}${isDirectory && !encoded.endsWith('/') ? `${encoded}/` : encoded}`
}

export function parentOf(path: string): string {
  const cut = path.lastIndexOf('/')
  return cut <= 0 ? '/' : path.slice(0, cut)
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

export function joined(directory: string, name: string): string {
  return directory === '/' ? `/${name}` : `${directory}/${name}`
}

/** Whether a path is below another one. */
export function isBelow(path: string, directory: string): boolean {
  return path !== directory && path.startsWith(directory === '/' ? '/' : `${directory}/`)
}
