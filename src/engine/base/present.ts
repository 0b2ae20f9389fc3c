import { EngineError } from './errors.js'

/** The value. Only a defect of ours makes it undefined or null. */
export function present<T>(value: T, what: string): NonNullable<T> {
  if (value === undefined || value === null) throw new EngineError('INTERNAL', `${what} is missing`)
  return value
}

/**
 * The item of a list at an index, which counts from the end when it is negative. Only a defect of ours makes the index
 * wrong. Loops over the bytes or pages of a large value read them directly instead.
 */
export function itemAt<T>(list: { at(index: number): T | undefined }, index: number): T {
  const item = list.at(index)
  if (item === undefined) throw new EngineError('INTERNAL', `a list has no item at ${index}`)
  return item
}

/** The item of a list of one; undefined when the list has none or several. */
export function onlyItem<T>(list: readonly T[]): T | undefined {
  return list.length === 1 ? list[0] : undefined
}
