import { invalid, unreadable } from '../../engine/client-contract.js'
import { kindOf } from './kind-of.js'
import { clientLimits } from './limits.js'

/**
 * Copies a request and all plain objects and arrays in it, because the caller may change them after the call.
 * Every property is read once. `undefined` means absent.
 *
 * @throws EngineError `INVALID_ARGUMENT` for anything but an object.
 */
export function checked<T>(request: T, field = 'request'): T {
  const copy = copyOf(request, field)
  if (typeof copy !== 'object' || copy === null || Array.isArray(copy))
    throw invalid(field, `must be an object; it is ${kindOf(copy)}`)
  return copy
}

/**
 * Copies any value as {@link checked} does.
 *
 * @throws EngineError `INVALID_ARGUMENT` for an object that cannot be read, is nested too deep or is too
 * large.
 */
export function copyOf<T>(value: T, field = 'request'): T {
  const budget = { parts: clientLimits.requestParts, field }
  let copy: T | typeof tooMuch | typeof notData
  try {
    copy = copyPart(value, 0, budget) as T
  } catch (cause) {
    if (cause === tooMuch || cause === notData) copy = cause
    else throw unreadable(field, cause)
  }
  if (copy === notData)
    throw invalid(field, 'must be a plain object, without a Map, a Set or a promise in it')
  if (copy === tooMuch)
    throw invalid(
      field,
      `is nested over ${clientLimits.requestDepth} levels deep, or has over ${clientLimits.requestParts} parts`,
    )
  return copy
}

const tooMuch = Symbol('tooMuch')
const notData = Symbol('notData')

/** Whether a value has contents that JSON would silently leave out. */
function isCollection(value: object): boolean {
  return value instanceof Map || value instanceof Set || value instanceof Promise
}

function copyPart(value: unknown, depth: number, budget: { parts: number }): unknown {
  if (typeof value !== 'object' || value === null) return value
  const isArray = Array.isArray(value)
  if (isCollection(value)) throw notData
  if (!isArray && !isPlain(value)) return value
  if (depth > clientLimits.requestDepth) throw tooMuch
  const take = (): void => {
    if (--budget.parts < 0) throw tooMuch
  }
  if (isArray) {
    const copy: unknown[] = []
    // Reads by index, because a subclass may override the iterator and methods.
    const length = Number(value.length)
    for (let index = 0; index < length; index++) {
      take()
      copy.push(copyPart(value[index], depth + 1, budget))
    }
    return copy
  }
  const copy = Object.create(null) as Record<string, unknown>
  for (const name of Object.keys(value)) {
    take()
    const part = (value as Readonly<Record<string, unknown>>)[name]
    if (part !== undefined) copy[name] = copyPart(part, depth + 1, budget)
  }
  return copy
}

/**
 * Whether a value is a plain object, which can be copied. An object literal that is a stream cannot be
 * copied.
 */
export function isPlain(value: object): boolean {
  if (Symbol.asyncIterator in value) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
