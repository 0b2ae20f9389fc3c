import { checkSignal, typeError, valueError } from '../../../engine/client-contract.js'

/** Node's Buffer. It is undefined in a browser. There, text is always UTF-8, and bytes are a Uint8Array. */
const { Buffer } = globalThis as Partial<Pick<typeof globalThis, 'Buffer'>>

/** As in Node, '' means no encoding. */
export type Encoding = BufferEncoding | 'buffer' | '' | null | undefined

export interface Options {
  readonly encoding?: Encoding
  readonly signal?: AbortSignal
}

const noNames: readonly never[] = []

/**
 * Parses options in Node's two forms: an object, or only the encoding. Copies `encoding`, `signal` and the
 * options in `names`. Each property is read once, so that a getter cannot pass a check and then return
 * another value.
 */
export function toOptions<T extends Options>(
  options: unknown,
  names: readonly (keyof T & string)[] = noNames,
): T {
  if (options === null || options === undefined || typeof options === 'function') return {} as T
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

/** Encodes a name as text in an encoding, or as bytes. */
export function encodeName(name: string, encoding: Encoding): string | Uint8Array {
  if (!encoding || isUtf8(encoding)) return name
  return decodeBytes(new TextEncoder().encode(name), encoding)
}

export function decodeBytes(bytes: Uint8Array, encoding: Encoding): string | Uint8Array {
  const wanted = !encoding || encoding === 'buffer' ? undefined : encoding
  if (Buffer === undefined)
    return wanted === undefined ? bytes : new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return wanted === undefined ? buffer : buffer.toString(wanted)
}

/** Converts a caller's data to bytes. */
export function toData(data: unknown, encoding: Encoding): Uint8Array {
  if (typeof data === 'string') {
    return Buffer === undefined
      ? new TextEncoder().encode(data)
      : Buffer.from(data, !encoding || encoding === 'buffer' ? 'utf8' : encoding)
  }
  if (data instanceof Uint8Array) return data
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  throw typeError('data', 'of type string or an instance of Buffer, TypedArray, or DataView', data)
}

function checkEncoding(encoding: unknown): void {
  if (encoding === undefined || encoding === null || encoding === '') return
  const known = Buffer?.isEncoding(encoding as string) ?? isUtf8(encoding)
  if (typeof encoding !== 'string' || !known) throw valueError('encoding', 'is invalid encoding', encoding)
}

function isUtf8(encoding: unknown): boolean {
  return encoding === 'utf8' || encoding === 'utf-8'
}
