/** Whether a value that was parsed from JSON has a certain form. */
export type Check = (value: unknown) => boolean

/** A check that gives the value its type. */
export type Guard<T> = (value: unknown) => value is T

/** A check for each field of a record. The compiler rejects a missing field and an unknown one. */
export type Checks<R> = { readonly [Field in keyof R]-?: Check }

export const isText: Check = (value) => typeof value === 'string'
export const isNumber: Check = (value) => typeof value === 'number'
/** An integer from 0. */
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0
export const isObject: Guard<Readonly<Record<string, unknown>>> = (
  value,
): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** An object whose values are all strings, such as tags. */
export const isTexts: Check = (value) => isObject(value) && Object.values(value).every(isText)

export function isOptional(check: Check): Check {
  return (value) => value === undefined || check(value)
}

export function isListOf<T>(check: Guard<T>): Guard<readonly T[]>
export function isListOf(check: Check): Check
export function isListOf(check: Check): Check {
  return (value) => {
    if (!Array.isArray(value)) return false
    // `every` skips the holes of a sparse array.
    for (let at = 0; at < value.length; at++) if (!check(value[at])) return false
    return true
  }
}

export function isTupleOf<T extends readonly unknown[]>(
  ...checks: { readonly [Item in keyof T]: Check }
): Guard<T> {
  return (value): value is T =>
    Array.isArray(value) &&
    value.length === checks.length &&
    checks.every((check, index) => check(value[index]))
}

export function isOneOf(values: Readonly<Record<string, string>>): Check {
  const known = new Set<unknown>(Object.values(values))
  return (value) => known.has(value)
}

/** An object with these fields; it may have others too. */
export function isWith<R>(checks: Checks<R>): Guard<R> {
  return (value): value is R => isObject(value) && wrongField(value, checks) === undefined
}

/** The first field that fails its check. */
export function wrongField<R>(value: object, checks: Checks<R>): string | undefined {
  for (const field in checks)
    if (!checks[field](Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : undefined))
      return field
  return undefined
}
