import { Buffer } from 'node:buffer'
import { invalid } from './errors.js'
import { given, kindOf, parseText, readEntries, readList, shown, tooLarge } from './input.js'
import { limits } from './limits.js'
import { unreadable } from './shape.js'

/** A value of JSON. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject

/** An object of JSON. `__proto__` is a key like any other. */
export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** The object without keys. */
export const noMetadata: JsonObject = Object.freeze({})

/**
 * A frozen copy of a caller's JSON object within the limits on metadata. Own enumerable properties count, and each is
 * read once. A property with the value undefined is absent.
 *
 * @throws {EngineError} INVALID_ARGUMENT when a value is not one of JSON.
 * @throws {EngineError} TOO_LARGE when the object is over a limit.
 */
export function parseJsonObject(field: string, value: unknown): JsonObject {
  if (typeof value !== 'object' || value === null || isArray(value, field))
    throw invalid(field, `must be an object of JSON, such as { turn: 3 }; it is ${given(value)}`)
  return new Copy(field).object(value, field, 1)
}

/** A frozen copy of metadata that was read from stored JSON. */
export function reviveJsonObject(value: JsonObject): JsonObject {
  return frozen(value) as JsonObject
}

/**
 * Whether a value contains another one. An object contains the objects whose keys it has, with values that it
 * contains. Arrays must have the same length. Other values must be equal.
 */
export function containsJson(value: JsonValue | undefined, wanted: JsonValue): boolean {
  if (typeof wanted !== 'object' || wanted === null) return value === wanted
  if (typeof value !== 'object' || value === null) return false
  if (isList(wanted))
    return (
      isList(value) &&
      value.length === wanted.length &&
      wanted.every((one, index) => containsJson(value[index], one))
    )
  if (isList(value)) return false
  return Object.entries(wanted).every(
    ([key, one]) => Object.hasOwn(value, key) && containsJson(value[key], one),
  )
}

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value)
}

/** Copies a caller's values, and counts their bytes as JSON on the way, so that an oversized object costs little. */
class Copy {
  readonly #field: string
  #bytes = 0

  constructor(field: string) {
    this.#field = field
  }

  object(value: object, at: string, depth: number): JsonObject {
    if (depth > limits.metadataDepth) throw tooLarge(this.#field, 'levels', limits.metadataDepth)
    if (!isPlain(value, at)) throw invalid(at, 'must be a plain object, not an instance of a class')
    const entries: [string, JsonValue][] = []
    this.#count(2)
    for (const [key, one] of readEntries(at, value, 'must be a plain object')) {
      if (one === undefined) continue
      const name = this.#text(key, this.#field)
      this.#count(entries.length === 0 ? 1 : 2)
      entries.push([name, this.#value(one, `${at}.${shown(key)}`, depth + 1)])
    }
    return Object.freeze(Object.fromEntries(entries))
  }

  #value(value: unknown, at: string, depth: number): JsonValue {
    if (typeof value === 'string') return this.#text(value, at)
    if (typeof value === 'number' && !Number.isFinite(value))
      throw invalid(at, `must be a finite number; it is ${given(value)}`)
    if (value === null || typeof value === 'boolean' || typeof value === 'number') {
      this.#count(JSON.stringify(value).length)
      // JSON has no negative zero.
      return value === 0 ? 0 : value
    }
    if (typeof value !== 'object')
      throw invalid(
        at,
        `must be a value of JSON: a string, number, boolean, null, array or object; it is ${kindOf(value)}`,
      )
    return isArray(value, at) ? this.#list(value, at, depth) : this.object(value, at, depth)
  }

  #list(value: readonly unknown[], at: string, depth: number): JsonValue {
    if (depth > limits.metadataDepth) throw tooLarge(this.#field, 'levels', limits.metadataDepth)
    const elements = readList(at, value, limits.metadataBytes, 'elements')
    this.#count(1 + Math.max(1, elements.length))
    return Object.freeze(elements.map((one, index) => this.#value(one, `${at}[${index}]`, depth + 1)))
  }

  #text(value: string, at: string): string {
    if (value.length > limits.metadataBytes) throw tooLarge(this.#field, 'bytes', limits.metadataBytes)
    const text = parseText(at, value, limits.metadataBytes)
    this.#count(Buffer.byteLength(JSON.stringify(text)))
    return text
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > limits.metadataBytes) throw tooLarge(this.#field, 'bytes', limits.metadataBytes)
  }
}

/** `Array.isArray` throws for a revoked proxy. */
function isArray(value: object, at: string): value is readonly unknown[] {
  try {
    return Array.isArray(value)
  } catch (cause) {
    throw unreadable(at, cause)
  }
}

/** Whether an object is no instance of a class. Objects of another realm are plain too. */
function isPlain(value: object, at: string): boolean {
  try {
    const prototype: unknown = Object.getPrototypeOf(value)
    return prototype === null || Object.getPrototypeOf(prototype) === null
  } catch (cause) {
    throw unreadable(at, cause)
  }
}

function frozen(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  for (const one of Object.values(value)) frozen(one)
  return Object.freeze(value)
}
