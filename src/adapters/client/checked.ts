import { invalid, unreadable } from '../../engine/client-contract.js'

/** Bounds on what is copied of one request; those of the interface are far below. */
const maxDepth = 16
const maxParts = 1_000_000

/**
 * A copy of a request, and of all plain objects and arrays in it: its caller may change it after the call. Every
 * property is read once; `undefined` means absent. INVALID_ARGUMENT for anything but an object.
 */
export function checked<T>(request: T, field = 'request'): T {
  const copy = copyOf(request, field)
  if (typeof copy !== 'object' || copy === null || Array.isArray(copy))
    throw invalid(field, 'must be an object')
  return copy
}

/** As {@link checked}, of any value. INVALID_ARGUMENT for an object that cannot be read or is too deep or large. */
export function copyOf<T>(value: T, field = 'request'): T {
  const budget = { parts: maxParts, field }
  let copy: T | typeof tooMuch
  try {
    copy = copyPart(value, 0, budget) as T
  } catch (cause) {
    if (cause === tooMuch) copy = tooMuch
    else throw unreadable(field, cause)
  }
  if (copy === tooMuch)
    throw invalid(field, `is nested over ${maxDepth} levels deep, or has over ${maxParts} parts`)
  return copy
}

const tooMuch = Symbol('tooMuch')

function copyPart(value: unknown, depth: number, budget: { parts: number }): unknown {
  if (typeof value !== 'object' || value === null) return value
  const isArray = Array.isArray(value)
  if (!isArray && !isPlain(value)) return value
  if (depth > maxDepth) throw tooMuch
  const take = (): void => {
    if (--budget.parts < 0) throw tooMuch
  }
  if (isArray) {
    const copy: unknown[] = []
    // By index: iterators and methods of a subclass do not count.
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

/** Whether a value has no more than its fields. A stream may be an object literal too, and is not copied. */
export function isPlain(value: object): boolean {
  if (Symbol.asyncIterator in value) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
