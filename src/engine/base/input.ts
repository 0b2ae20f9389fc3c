import { Buffer } from 'node:buffer'
import { EngineError, invalid } from './errors.js'
import { limits } from './limits.js'
import { isPlain, isPromise, objectKind, unawaited, unreadable } from './shape.js'

/** A user's map from strings to strings. `__proto__` is a key like any other. */
export type StringMap = Readonly<Record<string, string>>

/** A copy without a prototype, checked against the limits on tags and labels. */
export function parseStringMap(field: string, input: StringMap | undefined): StringMap {
  const copy: Record<string, string> = Object.create(null) as Record<string, string>
  if (input === undefined) return copy
  const entries = readEntries(field, input, 'must be an object of strings')
  if (entries.length > limits.tagEntries) throw tooLarge(field, 'entries', limits.tagEntries)
  for (const [key, value] of entries) {
    if (typeof value !== 'string')
      throw invalid(field, `the value of ${given(key)} must be a string; it is ${kindOf(value)}`)
    copy[parseText(field, key, limits.tagKeyBytes)] = parseText(field, value, limits.tagValueBytes)
  }
  return copy
}

/** Checks that a value is a well-formed string within a limit in bytes. */
export function parseText(field: string, value: unknown, maxBytes: number): string {
  if (typeof value !== 'string') throw invalid(field, `must be a string; it is ${kindOf(value)}`)
  if (!value.isWellFormed()) throw invalid(field, 'contains a lone surrogate: half of a character of UTF-16')
  if (value.length * 3 > maxBytes && Buffer.byteLength(value) > maxBytes)
    throw tooLarge(field, 'bytes', maxBytes)
  return value
}

/**
 * The elements of a caller's array. Each is read once, by its index, so iterators and methods of a subclass
 * are not used. A hole becomes undefined.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the value is not an array.
 * @throws {EngineError} TOO_LARGE when the array is over the limit.
 */
export function readList(field: string, list: unknown, limit: number, unit: string): unknown[] {
  const elements: unknown[] = []
  let length: unknown
  try {
    if (Array.isArray(list)) {
      length = list.length
      const count = Math.min(Number(length), limit)
      for (let index = 0; index < count; index++) elements.push(list[index])
    }
  } catch (cause) {
    throw unreadable(field, cause)
  }
  if (!Number.isSafeInteger(length) || (length as number) < 0)
    throw invalid(field, `must be an array; it is ${kindOf(list)}`)
  if ((length as number) > limit) throw tooLarge(field, unit, limit)
  return elements
}

/**
 * The own enumerable properties of a caller's data object, each read once.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the value is not such an object, such as a Map or a promise.
 */
export function readEntries(field: string, map: unknown, expected: string): [string, unknown][] {
  if (typeof map !== 'object' || map === null) throw invalid(field, `${expected}; it is ${kindOf(map)}`)
  let entries: [string, unknown][] | undefined
  let plain = false
  try {
    if (!Array.isArray(map) && !ArrayBuffer.isView(map)) entries = Object.entries(map)
    plain = entries !== undefined && (entries.length > 0 || isPlain(map))
  } catch (cause) {
    throw unreadable(field, cause)
  }
  if (entries === undefined) throw invalid(field, `${expected}; it is ${kindOf(map)}`)
  if (!plain) throw invalid(field, `${expected}; it is ${objectKind(map)}`)
  return entries
}

/** The error text for an object that must have exactly one of several keys. */
export function oneOf(copy: object, names: string): string {
  const has = Object.keys(copy)
  return `must have exactly one of the keys ${names}; it has ${has.length === 0 ? 'none' : has.join(', ')}`
}

/** A caller's id or label, shortened for an error. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, limits.shownLength) : typeof value
}

/** A caller's value in a short form, for the end of an error message. Never pass a secret. */
export function given(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(
      value.length > limits.shownLength ? `${value.slice(0, limits.shownLength)}…` : value,
    )
  if (typeof value === 'bigint') return `${value}n`
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : kindOf(value)
}

/** The kind of a caller's value, in words. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return typeof value === 'object' ? kindOfObject(value) : `a ${typeof value}`
}

/** The class of an object, such as `a Date`, because its owner knows that name. */
function kindOfObject(value: object): string {
  if (isPromise(value)) return unawaited
  try {
    if (Array.isArray(value)) return 'an array'
    const name: unknown = (value as { readonly constructor?: { readonly name?: unknown } }).constructor?.name
    if (typeof name !== 'string' || name === 'Object' || !/^[A-Z]\w*$/.test(name)) return 'an object'
    return `an instance of ${name.slice(0, limits.shownLength)}`
  } catch {
    // A caller's proxies and getters may throw anything.
    return 'an object'
  }
}

/** Whether a value is a real Uint8Array. An object that only has its prototype is not one. */
export function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && value instanceof Uint8Array
}

interface Getter {
  readonly get: (this: ArrayBufferView) => unknown
}
const typedArray = Object.getOwnPropertyDescriptors(
  Object.getPrototypeOf(Uint8Array.prototype) as object,
) as unknown as Readonly<Record<'buffer' | 'byteOffset' | 'byteLength', Getter>>
const { get: bufferOf } = typedArray.buffer
const { get: offsetOf } = typedArray.byteOffset
const { get: lengthOf } = typedArray.byteLength

/** The real length of a view in bytes, whatever its property says. */
export function byteLengthOf(value: Uint8Array): number {
  return lengthOf.call(value) as number
}

/**
 * The bytes of a caller's Uint8Array, in the same memory. A subclass may override its properties, so only the
 * real bounds are used.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the value is not a Uint8Array, states a wrong length, or has no
 * memory.
 */
export function readBytes(
  field: string,
  value: unknown,
  expected = 'must be a Uint8Array',
): Uint8Array<ArrayBufferLike> {
  if (!isBytes(value)) throw invalid(field, expected)
  const length = lengthOf.call(value) as number
  let said: unknown
  try {
    said = value.byteLength === value.length ? value.length : undefined
  } catch (cause) {
    throw unreadable(field, cause)
  }
  if (said !== length) throw invalid(field, `states another length than its ${length} bytes`)
  if (length === 0 && !hasMemory(value)) {
    throw invalid(field, 'has no memory: its ArrayBuffer was detached or made smaller; pass a copy')
  }
  return new Uint8Array(bufferOf.call(value) as ArrayBuffer, offsetOf.call(value) as number, length)
}

/**
 * Whether a caller's value is an async iterable.
 *
 * @throws {EngineError} INVALID_ARGUMENT when that cannot be read.
 */
export function isAsyncIterable(field: string, value: unknown): value is AsyncIterable<unknown> {
  if (typeof value !== 'object' || value === null) return false
  try {
    return typeof (value as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === 'function'
  } catch (cause) {
    throw unreadable(field, cause)
  }
}

/** The error text for a piece of content that is not bytes. */
export function notInPieces(piece: unknown): string {
  return `must be an iterable of Uint8Array pieces; a piece is ${kindOf(piece)}`
}

/** Whether the memory of an empty view still exists. */
function hasMemory(value: Uint8Array): boolean {
  try {
    // Throws if it does not.
    Uint8Array.prototype.keys.call(value)
    return true
  } catch {
    return false
  }
}

/** Like {@link readBytes}, but returns a copy, because the owner may change the bytes later. */
export function copyBytes(field: string, value: unknown, expected?: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readBytes(field, value, expected))
}

/** Checks permission bits, 0 to 0o7777. */
export function parseMode(mode: unknown, field = 'mode'): number {
  if (typeof mode !== 'number' || !Number.isInteger(mode) || mode < 0 || mode > 0o7777) {
    throw invalid(field, `must be a whole number from 0 to 0o7777, such as 0o644; it is ${given(mode)}`)
  }
  return mode
}

/** Checks an optional boolean. `fallback` is its default. */
export function parseFlag(field: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback
  if (typeof value !== 'boolean') throw invalid(field, `must be true or false; it is ${given(value)}`)
  return value
}

/** Checks an optional function. */
export function parseFunction<T>(field: string, value: T): T {
  if (value === undefined || typeof value === 'function') return value
  throw invalid(field, `must be a function; it is ${given(value)}`)
}

/** Checks a size or offset in bytes. */
export function parseSize(field: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw invalid(field, `must be a whole number from 0 to 2^53 − 1; it is ${given(value)}`)
  }
  return value
}

/** Copies a map that was read from stored JSON, so that it has no prototype again. */
export function reviveStringMap(entries: StringMap): StringMap {
  return Object.assign(Object.create(null) as Record<string, string>, entries)
}

export function tooLarge(field: string, unit: string, limit: number): EngineError {
  return new EngineError('TOO_LARGE', `${field}: over the limit of ${limit} ${unit}`, {
    field,
    limit: String(limit),
  })
}
