import { EngineError } from './errors.js'

/** Returns the value. Only a defect of this library makes it undefined or null. */
export function present<T>(value: T, what: string): NonNullable<T> {
  if (value === undefined || value === null) throw new EngineError('INTERNAL', `${what} is missing`)
  return value
}

/**
 * The item of a list at an index. A negative index counts from the end. Only a defect of this library makes
 * the index wrong. Loops over the bytes or pages of a large value read them directly instead.
 */
export function itemAt<T>(list: ArrayLike<T>, index: number): T {
  // `list.at` costs several times as much in loops.
  const item = list[index < 0 ? list.length + index : index]
  if (item === undefined) throw new EngineError('INTERNAL', `a list has no item at ${index}`)
  return item
}

/** The only item of a list. Undefined when the list has none or several. */
export function onlyItem<T>(list: readonly T[]): T | undefined {
  return list.length === 1 ? list[0] : undefined
}
