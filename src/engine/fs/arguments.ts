import { Buffer, isUtf8 } from 'node:buffer'
import type { PathLike } from 'node:fs'
import { argumentError, rangeError, typeError, valueError } from './argument-errors.js'

const uint32Max = 2 ** 32 - 1
const int32Max = 2 ** 31 - 1

export type Encoding = BufferEncoding | 'buffer' | null | undefined

/** A path as the caller gave it, checked: what errors name and results are built from. */
export function givenPath(path: unknown, name = 'path'): string {
  const text = typeof path === 'string' ? path : decodePath(path as PathLike, name)
  if (!text.includes('\0')) return text
  throw valueError(name, 'must be a string, Uint8Array, or URL without null bytes', path)
}

/** An absolute path without `.`, `..`, double or trailing slashes; a relative one is refused by the engine. */
export function plainPath(given: string): string {
  if (!given.includes('//') && !given.includes('/.') && (given.length === 1 || !slashed(given))) return given
  return given.startsWith('/') ? resolvePath('/', given) : given
}

/** A path, from a directory on where it is relative, without `.` and `..`. */
export function resolvePath(from: string, path: string): string {
  const names: string[] = []
  for (const name of (path.startsWith('/') ? path : `${from}/${path}`).split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}

/** Whether a path ends with a slash, and so asks for a directory. */
export function slashed(path: string): boolean {
  return path.length > 1 && path.charCodeAt(path.length - 1) === 47
}

export interface Options {
  readonly encoding?: Encoding
  readonly signal?: AbortSignal
}

const noOptions = {}

/** What Node takes as options: an object, or just the encoding. */
export function toOptions(options: unknown): Options {
  if (options === null || options === undefined || typeof options === 'function') return noOptions
  const object = typeof options === 'string' ? { encoding: options as Encoding } : (options as Options)
  if (typeof object !== 'object') throw typeError('options', 'one of type string or object', options)
  if (object.encoding !== 'buffer') checkEncoding(object.encoding)
  checkSignal(object.signal)
  return object
}

/** Options that are an object or absent. */
export function toObject(options: unknown): object {
  if (options === undefined || typeof options === 'function') return noOptions
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw typeError('options', 'of type object', options)
  return options
}

export function checkSignal(
  signal: unknown,
  name = 'options.signal',
): asserts signal is AbortSignal | undefined {
  if (signal === undefined) return
  if (typeof signal !== 'object' || signal === null || !('aborted' in signal))
    throw typeError(name, 'an instance of AbortSignal', signal)
}

export function checkBoolean(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw typeError(name, 'of type boolean', value)
  return value
}

/** Whole numbers only. */
export function checkInteger(
  name: string,
  value: unknown,
  min?: number,
  max = Number.MAX_SAFE_INTEGER,
): number {
  if (typeof value !== 'number') throw typeError(name, 'of type number', value)
  if (!Number.isInteger(value)) throw rangeError(name, 'an integer', value)
  const least = min ?? Number.MIN_SAFE_INTEGER
  if (value < least || value > max) throw rangeError(name, `>= ${least} && <= ${max}`, value)
  return value
}

export function toNumber(fd: unknown): number {
  return Object.is(fd, -0) ? 0 : checkInteger('fd', fd, 0, int32Max)
}

export function toOwner(name: string, id: unknown): number {
  return checkInteger(name, id, -1, uint32Max)
}

/** The bytes of a caller's data; strings stay what they are when they are UTF-8. */
export function toBytes(data: unknown, encoding: Encoding, name = 'data'): string | Uint8Array {
  if (typeof data === 'string') {
    return encoding === undefined || encoding === null || encoding === 'buffer' || encoding === 'utf8'
      ? data
      : Buffer.from(data, encoding)
  }
  if (data instanceof Uint8Array) return data
  if (ArrayBuffer.isView(data)) return viewBytes(data)
  throw typeError(name, 'of type string or an instance of Buffer, TypedArray, or DataView', data)
}

export function toBuffer(buffer: unknown): ArrayBufferView {
  if (ArrayBuffer.isView(buffer)) return buffer
  throw typeError('buffer', 'an instance of Buffer, TypedArray, or DataView', buffer)
}

export function toBuffers(buffers: unknown): ArrayBufferView[] {
  if (!Array.isArray(buffers) || !buffers.every((buffer) => ArrayBuffer.isView(buffer)))
    throw typeError('buffers', 'an ArrayBufferView[]', buffers)
  return buffers
}

export function viewBytes(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

/** Octal text or a number, permission bits only; without a fallback it must be given. */
export function toMode(mode: unknown, fallback?: number): number {
  if (fallback !== undefined && (mode === undefined || mode === null)) return fallback
  if (typeof mode === 'string') {
    if (/^[0-7]+$/.test(mode)) return Number.parseInt(mode, 8) & 0o7777
    throw valueError('mode', 'must be a 32-bit unsigned integer or an octal string', mode)
  }
  return checkInteger('mode', mode, 0, uint32Max) & 0o7777
}

/** The three bits that access and copyFile take. */
export function toModeBits(mode: unknown): number {
  if (mode === undefined || mode === null || typeof mode === 'function') return 0
  if (typeof mode !== 'number')
    throw argumentError('ERR_INVALID_ARG_TYPE', 'mode must be int32 or null/undefined')
  if (mode >= 0 && mode <= 7) return Math.trunc(mode)
  throw Object.assign(new RangeError('mode is out of range: >= 0 && <= 7'), { code: 'ERR_OUT_OF_RANGE' })
}

/** Milliseconds since the epoch of a time in seconds or a Date; a negative number is `now`, as in Node. */
export function toTime(time: unknown, now: () => number, name = 'time'): number {
  const seconds = typeof time === 'string' && time !== '' ? Number(time) : time
  if (typeof seconds === 'number' && Number.isFinite(seconds)) {
    // A double of seconds holds more digits of a time than it has: what is kept is whole nanoseconds.
    return typeof time === 'number' && seconds < 0 ? now() : Math.round(seconds * 1e9) / 1e6
  }
  if (time instanceof Date) return time.getTime()
  throw typeError(name, 'an instance of Date or an Time in seconds', time)
}

/** Text in an encoding, or bytes. */
export function encodeName(name: string, encoding: Encoding): string | Buffer {
  if (encoding === undefined || encoding === null || encoding === 'utf8' || encoding === 'utf-8') return name
  const bytes = Buffer.from(name)
  return encoding === 'buffer' ? bytes : bytes.toString(encoding)
}

export function decodeBytes(bytes: Buffer, encoding: Encoding): Buffer | string {
  return encoding === undefined || encoding === null || encoding === 'buffer'
    ? bytes
    : bytes.toString(encoding)
}

function checkEncoding(encoding: unknown): void {
  if (encoding === undefined || encoding === null || encoding === '') return
  if (typeof encoding !== 'string' || !Buffer.isEncoding(encoding))
    throw valueError('encoding', 'is invalid encoding', encoding)
}

function decodePath(path: PathLike, name: string): string {
  if (path instanceof Uint8Array) {
    if (!isUtf8(path)) throw valueError(name, 'must be UTF-8', path)
    return Buffer.from(path.buffer, path.byteOffset, path.byteLength).toString()
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
