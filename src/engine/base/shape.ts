import { EngineError, invalid, messageOf } from './errors.js'
import { limits } from './limits.js'
import { nearest } from './nearest.js'

/** The properties of T. For a union, the properties of all its members. */
type NameOf<T> = T extends unknown ? keyof T & string : never

/** Every property of T, named once. The compiler rejects a missing name and an unknown one. */
export type NamesOf<T> = Readonly<Record<NameOf<T>, true>>

/** A copy that its receiver may change. */
export type CopyOf<T> = { -readonly [Name in keyof T]: T[Name] }

/** A copy does not inherit from `Object.prototype`, so a property that was added there is not an option. */
const Copy = function () {} as unknown as new () => Record<string, unknown>
Copy.prototype = Object.create(null)

/**
 * The properties of an options object. {@link read} copies a caller's object when the call begins. From then
 * on, the engine uses only the copy.
 *
 * Own enumerable properties count, as in a spread. Inherited ones and symbols do not. `undefined` means
 * absent. Every property is read once.
 */
export class Shape<T extends object> {
  readonly #names: ReadonlySet<string>

  constructor(names: NamesOf<T>) {
    this.#names = new Set(Object.keys(names))
  }

  /**
   * A copy of the known fields. `parameter` is the name of the argument in errors.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the value is not an object, or has an unknown name.
   */
  read(value: T, parameter = 'request'): CopyOf<T> {
    return this.#read(value, parameter, '')
  }

  /**
   * Like {@link read}, for an object inside another one. Names in errors begin with the field of that object.
   */
  readPart(value: T, field: string): CopyOf<T> {
    return this.#read(value, field, field)
  }

  #read(value: T, parameter: string, field: string): CopyOf<T> {
    if (typeof value !== 'object' || value === null) throw this.#notAnObject(parameter, value)
    const copy = new Copy()
    let plain = true
    let unknown: string | undefined
    // A caller's proxies and getters may throw anything.
    try {
      if (Array.isArray(value) || ArrayBuffer.isView(value)) plain = false
      else {
        const names = Object.keys(value)
        if (names.length === 0) plain = isPlain(value)
        for (const name of names) {
          const given = (value as Readonly<Record<string, unknown>>)[name]
          if (given === undefined) continue
          if (!this.#names.has(name)) {
            unknown = name
            break
          }
          copy[name] = given
        }
      }
    } catch (cause) {
      throw unreadable(parameter, cause)
    }
    if (!plain) throw this.#notAnObject(parameter, value)
    if (unknown !== undefined) throw unknownName(field, unknown, this.#names)
    return copy as CopyOf<T>
  }

  #notAnObject(parameter: string, value: unknown): EngineError {
    const names = [...this.#names].join(', ')
    return invalid(parameter, `must be an object with the keys ${names}; it is ${shownKind(value)}`)
  }
}

/** The error INVALID_ARGUMENT for an unknown key. It suggests the most similar known key. */
export function unknownName(field: string, name: string, known: ReadonlySet<string>): EngineError {
  const shownName = shownKey(name)
  const at = field === '' ? shownName : `${field}.${shownName}`
  const suggestion = nearest(name, known)
  if (suggestion === undefined) {
    const names =
      known.size === 0 ? 'this call has no options' : `the known keys are ${[...known].join(', ')}`
    return invalid(at, `unknown key; ${names}`)
  }
  return new EngineError('INVALID_ARGUMENT', `${at}: unknown key; did you mean "${suggestion}"?`, {
    field: at,
    suggestion,
  })
}

/**
 * Parses arguments immediately, for a call whose result comes later, such as an iterator. The returned
 * function gives the value or throws the error.
 */
export function parseAtCall<T>(parse: () => T): () => T {
  try {
    const value = parse()
    return () => value
  } catch (error) {
    return () => {
      throw error
    }
  }
}

export function unreadable(field: string, cause: unknown): EngineError {
  const message = `${field}: cannot be read: ${messageOf(cause)}`
  return new EngineError('INVALID_ARGUMENT', message, { field }, { cause })
}

/**
 * Whether an object without properties of its own can be an empty `{}`, and not a Map, a promise or an
 * instance of a class.
 */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}

/** The words of an error for an object that is not plain, such as a promise. */
export function objectKind(value: object): string {
  return isPromise(value) ? unawaited : 'not a plain object'
}

export const unawaited = 'a promise, which must be awaited first'

/** Whether an object is a promise. A caller's proxy may throw. */
export function isPromise(value: object): boolean {
  try {
    return value instanceof Promise
  } catch {
    return false
  }
}

function shownKind(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value !== 'object') return `a ${typeof value}`
  return Array.isArray(value) ? 'an array' : objectKind(value)
}

function shownKey(name: string): string {
  return /^[\w$-]+$/.test(name) && name.length <= limits.shownLength
    ? name
    : JSON.stringify(name.slice(0, limits.shownLength))
}
