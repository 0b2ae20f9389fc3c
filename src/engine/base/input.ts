import { Buffer } from 'node:buffer'
import { EngineError, invalid } from './errors.js'
import { limits } from './limits.js'

/** String-to-string data of a user; `__proto__` is a key like any other. */
export type StringMap = Readonly<Record<string, string>>

/** A copy without prototype, checked against the limits on tags and labels. */
export function parseStringMap(field: string, input: StringMap | undefined): StringMap {
  const copy: Record<string, string> = Object.create(null) as Record<string, string>
  if (input === undefined) return copy
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw invalid(field, 'must be an object')
  const entries = Object.entries(input)
  if (entries.length > limits.tagEntries) throw tooLarge(field, 'entries', limits.tagEntries)
  for (const [key, value] of entries) {
    copy[parseText(field, key, limits.tagKeyBytes)] = parseText(field, value, limits.tagValueBytes)
  }
  return copy
}

/** A well-formed string within a limit in bytes. */
export function parseText(field: string, value: unknown, maxBytes: number): string {
  if (typeof value !== 'string') throw invalid(field, 'must be a string')
  if (!value.isWellFormed()) throw invalid(field, 'contains a lone surrogate')
  if (value.length * 3 > maxBytes && Buffer.byteLength(value) > maxBytes)
    throw tooLarge(field, 'bytes', maxBytes)
  return value
}

/** An id or label of a caller as it may stand in an error. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 64) : typeof value
}

/** A Uint8Array, and not only what has its prototype. */
export function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && value instanceof Uint8Array
}

/** Operations take an object. */
export function checkRequest(request: unknown, field = 'request'): void {
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw invalid(field, 'must be an object')
}

/** Permission bits, 0 to 0o7777. */
export function parseMode(mode: unknown, field = 'mode'): number {
  if (typeof mode !== 'number' || !Number.isInteger(mode) || mode < 0 || mode > 0o7777) {
    throw invalid(field, 'must be a whole number from 0 to 0o7777')
  }
  return mode
}

/** true or false, where it is given. */
export function parseFlag(field: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback
  if (typeof value !== 'boolean') throw invalid(field, 'must be true or false')
  return value
}

/** A size or offset in bytes. */
export function parseSize(field: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw invalid(field, 'must be a whole number from 0 to 2^53 − 1')
  }
  return value
}

/** `key=value`, as a filter on tags or labels. */
export function parseFilter(filter: string | undefined): ((map: StringMap) => boolean) | undefined {
  if (filter === undefined || filter === '') return undefined
  const cut = typeof filter === 'string' ? filter.indexOf('=') : -1
  if (cut < 1) throw invalid('filter', 'must have the form key=value')
  const key = filter.slice(0, cut)
  const value = filter.slice(cut + 1)
  return (map) => Object.hasOwn(map, key) && map[key] === value
}

/** A JSON object as it may stand in storage, back without a prototype. */
export function reviveStringMap(entries: StringMap): StringMap {
  return Object.assign(Object.create(null) as Record<string, string>, entries)
}

export function tooLarge(field: string, unit: string, limit: number): EngineError {
  return new EngineError('TOO_LARGE', `${field}: over ${limit} ${unit}`, { field, limit: String(limit) })
}
