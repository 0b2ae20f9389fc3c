import { Buffer } from 'node:buffer'

export type PathLike = string | Uint8Array | URL

/** An absolute path without `.`, `..`, double or trailing slashes; a relative one is refused by the engine. */
export function toPath(path: PathLike, name = 'path'): string {
  const text = typeof path === 'string' ? path : decodePath(path, name)
  if (text.includes('\0'))
    throw argumentError(
      'ERR_INVALID_ARG_VALUE',
      `The argument '${name}' must be a string, Uint8Array, or URL without null bytes.`,
    )
  if (!text.includes('//') && !text.includes('/.') && (text.length === 1 || !text.endsWith('/'))) return text
  return normalize(text)
}

export type Encoding = BufferEncoding | 'buffer' | null | undefined

/** What Node takes as options: an object, or just the encoding. */
export function toOptions<T extends { encoding?: Encoding }>(options: T | Encoding): T {
  if (options === null || options === undefined) return {} as T
  const object = typeof options === 'string' ? ({ encoding: options } as T) : options
  const { encoding } = object
  if (encoding !== undefined && encoding !== null && encoding !== 'buffer' && !Buffer.isEncoding(encoding)) {
    throw argumentError(
      'ERR_INVALID_ARG_VALUE',
      `The argument 'encoding' is invalid encoding. Received '${String(encoding)}'`,
    )
  }
  return object
}

export function toBytes(data: unknown, encoding: Encoding): string | Uint8Array {
  if (typeof data === 'string')
    return encoding === undefined || encoding === null || encoding === 'buffer' || encoding === 'utf8'
      ? data
      : Buffer.from(data, encoding)
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  throw argumentError(
    'ERR_INVALID_ARG_TYPE',
    'The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView.',
  )
}

/** Octal text or a number, permission bits only. */
export function toMode(mode: number | string | undefined, fallback: number): number {
  if (mode === undefined) return fallback
  const bits = typeof mode === 'string' ? Number.parseInt(mode, 8) : mode
  if (!Number.isInteger(bits) || bits < 0)
    throw argumentError(
      'ERR_INVALID_ARG_VALUE',
      `The argument 'mode' must be a 32-bit unsigned integer or an octal string. Received ${String(mode)}`,
    )
  return bits & 0o7777
}

function decodePath(path: unknown, name: string): string {
  if (path instanceof Uint8Array) return Buffer.from(path.buffer, path.byteOffset, path.byteLength).toString()
  if (path instanceof URL) {
    if (path.protocol !== 'file:')
      throw argumentError('ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file')
    return decodeURIComponent(path.pathname)
  }
  throw argumentError(
    'ERR_INVALID_ARG_TYPE',
    `The "${name}" argument must be of type string or an instance of Buffer or URL.`,
  )
}

function normalize(path: string): string {
  if (!path.startsWith('/')) return path
  const names: string[] = []
  for (const name of path.split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}

export function argumentError(code: string, message: string): TypeError {
  const error = new TypeError(message)
  return Object.assign(error, { code })
}
