import { Buffer } from 'node:buffer'
import { typeError, valueError } from './argument-errors.js'
import { checkInteger, checkSignal } from './values.js'

const int32Max = 2 ** 31 - 1

/**
 * As in Node, '' means no encoding.
 *
 * @inline
 */
export type Encoding = BufferEncoding | 'buffer' | '' | null | undefined

export interface Options {
  /**
   * The encoding of strings in the result; UTF-8 by default. With `buffer`, the result has buffers instead.
   */
  readonly encoding?: Encoding
  /** Aborts the call, which then fails with an `AbortError`. Without a signal, the call cannot be aborted. */
  readonly signal?: AbortSignal
}

const noOptions = {}
const noNames: readonly never[] = []

/**
 * Parses options in Node's two forms: an object, or just the encoding. The result is a copy of `encoding`,
 * `signal` and the options in `names`. Each property is read once, so that a getter cannot pass a check and
 * then return another value.
 */
export function toOptions<T extends Options>(
  options: unknown,
  names: readonly (keyof T & string)[] = noNames,
): T {
  if (options === null || options === undefined || typeof options === 'function') return noOptions as T
  if (typeof options !== 'object' && typeof options !== 'string')
    throw typeError('options', 'one of type string or object', options)
  const given: Options = typeof options === 'string' ? { encoding: options as Encoding } : options
  const { encoding, signal } = given
  if (encoding !== 'buffer') checkEncoding(encoding)
  checkSignal(signal)
  const copy: Record<string, unknown> = { encoding, signal }
  for (const name of names) copy[name] = (given as T)[name]
  return copy as T
}

export function toNumber(fd: unknown): number {
  return Object.is(fd, -0) ? 0 : checkInteger('fd', fd, 0, int32Max)
}

/** Converts a caller's data to bytes. UTF-8 strings are returned unchanged. The encoding `buffer` is only one of names. */
export function toBytes(data: unknown, encoding: Encoding, name = 'data'): string | Uint8Array {
  if (typeof data === 'string') {
    return !encoding || encoding === 'utf8' ? data : Buffer.from(data, encoding as BufferEncoding)
  }
  if (data instanceof Uint8Array && ArrayBuffer.isView(data)) return data
  if (ArrayBuffer.isView(data)) return viewBytes(data)
  throw typeError(name, 'of type string or an instance of Buffer, TypedArray, or DataView', data)
}

export function toBuffer(buffer: unknown): ArrayBufferView {
  if (ArrayBuffer.isView(buffer)) return buffer
  throw typeError('buffer', 'an instance of Buffer, TypedArray, or DataView', buffer)
}

export function toBuffers(buffers: unknown): ArrayBufferView[] {
  if (!Array.isArray(buffers)) throw typeError('buffers', 'an ArrayBufferView[]', buffers)
  const views: ArrayBufferView[] = []
  // Reads by index, as Node does: a hole in the array is an error, and the iterator of a subclass is not
  // called.
  for (let index = 0; index < buffers.length; index++) {
    const view: unknown = buffers[index]
    if (!ArrayBuffer.isView(view)) throw typeError('buffers', 'an ArrayBufferView[]', buffers)
    views.push(view)
  }
  return views
}

/** Throws ERR_INVALID_ARG_VALUE if the view's offset and length do not lie within its memory. */
export function viewBytes(view: ArrayBufferView): Uint8Array {
  try {
    return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
  } catch {
    throw valueError('buffer', 'must lie within its ArrayBuffer', view)
  }
}

/** Encodes a name: as text, or as bytes for the encoding `buffer`. */
export function encodeName(name: string, encoding: Encoding): string | Buffer {
  if (!encoding || encoding === 'utf8' || encoding === 'utf-8') return name
  const bytes = Buffer.from(name)
  return encoding === 'buffer' ? bytes : bytes.toString(encoding)
}

export function decodeBytes(bytes: Buffer, encoding: Encoding): Buffer | string {
  return !encoding ? bytes : bytes.toString(encoding as BufferEncoding)
}

/** Node encodes text for a position in a file only if it is whole bytes. */
export function toPositionedBytes(text: string, encoding: unknown): Buffer {
  const named = (typeof encoding === 'string' ? encoding : 'utf8') as BufferEncoding
  if (named.toLowerCase() === 'hex' && text.length % 2 !== 0)
    throw valueError('encoding', `is invalid for data of length ${text.length}`, encoding)
  return Buffer.from(text, named)
}

function checkEncoding(encoding: unknown): void {
  if (encoding === undefined || encoding === null || encoding === '') return
  if (typeof encoding !== 'string' || !Buffer.isEncoding(encoding))
    throw valueError('encoding', 'is invalid encoding', encoding)
}
