import { Buffer } from 'node:buffer'

export type PathLike = string | Uint8Array | URL

/** An absolute path without `.`, `..`, double or trailing slashes; a relative one is refused by the engine. */
export function toPath(path: PathLike, name = 'path'): string {
  const text = toText(path, name)
  checkText(text, name)
  if (!text.includes('//') && !text.includes('/.') && (text.length === 1 || !text.endsWith('/'))) return text
  return normalize(text)
}

/** A path or target must not contain NUL. */
export function checkText(text: string, name: string): string {
  if (!text.includes('\0')) return text
  throw argumentError(
    'ERR_INVALID_ARG_VALUE',
    `The argument '${name}' must be a string, Uint8Array, or URL without null bytes.`,
  )
}

/** The path as it was given, as text. */
export function toText(path: PathLike, name = 'path'): string {
  return typeof path === 'string' ? path : decodePath(path, name)
}

/** Whether a path ends with a slash, and so asks for a directory. */
export function slashed(path: PathLike): boolean {
  const text = toText(path)
  return text.length > 1 && text.charCodeAt(text.length - 1) === 47
}

/** Node's own abort error, with the signal's reason as its cause. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted !== true) return
  const error = new Error('The operation was aborted', { cause: signal.reason })
  throw Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' })
}

const writeFlags = ['w', 'wx', 'xw', 'a', 'ax', 'xa', 'w+', 'wx+', 'a+', 'ax+', 'as']

/** The flags of open(2) by which a whole file is written. */
export function parseFlag(flag: string): { append: boolean; exclusive: boolean } {
  if (!writeFlags.includes(flag)) {
    throw flagError(flag)
  }
  return { append: flag.includes('a'), exclusive: flag.includes('x') }
}

export function flagError(flag: string): TypeError {
  return argumentError('ERR_INVALID_ARG_VALUE', `The argument 'flags' is invalid. Received '${flag}'`)
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

/** Octal text or a number, permission bits only; without a fallback it must be given. */
export function toMode(mode: number | string | null | undefined, fallback?: number): number {
  if (fallback !== undefined && (mode === undefined || mode === null)) return fallback
  if (typeof mode === 'string') {
    if (/^[0-7]+$/.test(mode)) return Number.parseInt(mode, 8) & 0o7777
    throw argumentError(
      'ERR_INVALID_ARG_VALUE',
      `The argument 'mode' must be a 32-bit unsigned integer or an octal string. Received '${mode}'`,
    )
  }
  const bits: unknown = mode
  if (typeof bits !== 'number') {
    throw argumentError(
      'ERR_INVALID_ARG_TYPE',
      `The "mode" argument must be of type number. Received ${String(bits)}`,
    )
  }
  if (!Number.isInteger(bits) || bits < 0 || bits > 2 ** 32 - 1) {
    const error = new RangeError(
      `The value of "mode" is out of range. It must be >= 0 && <= 4294967295. Received ${bits}`,
    )
    throw Object.assign(error, { code: 'ERR_OUT_OF_RANGE' })
  }
  return bits & 0o7777
}

function decodePath(path: unknown, name: string): string {
  if (path instanceof Uint8Array) return Buffer.from(path.buffer, path.byteOffset, path.byteLength).toString()
  if (path instanceof URL) {
    if (path.protocol !== 'file:')
      throw argumentError('ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file')
    if (/%2f/i.test(path.pathname)) {
      throw argumentError('ERR_INVALID_FILE_URL_PATH', 'File URL path must not include encoded / characters')
    }
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
