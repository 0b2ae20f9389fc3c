/** Reads untrusted values. The type and bounds of each value are checked. */
import { Buffer, isUtf8 } from 'node:buffer'
import { EngineError } from '../../base/errors.js'
import { parseText } from '../../base/input.js'
import { parseJsonObject, type JsonObject } from '../../base/json-object.js'

export const isDamaged = 'the bundle is damaged'

export function damaged(message: string, options?: ErrorOptions): EngineError {
  return new EngineError(
    'INVALID_BUNDLE',
    `${isDamaged}: ${message}. Export the session again, or copy the bundle again.`,
    {},
    options,
  )
}

/** Runs `check`, and converts its errors to INVALID_BUNDLE. */
export function checked<T>(check: () => T): T {
  try {
    return check()
  } catch (cause) {
    throw damaged((cause as Error).message, { cause })
  }
}

export function parseJson(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw damaged('text is not in UTF-8')
  return checked(() => JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()))
}

export function asList(value: unknown, maxLength = Number.POSITIVE_INFINITY): readonly unknown[] {
  if (!Array.isArray(value) || value.length > maxLength) throw damaged('a list is missing or too long')
  return value
}

export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw damaged('an object is missing')
  return value as Record<string, unknown>
}

export function asInteger(value: unknown, from: number, to: number = Number.MAX_SAFE_INTEGER): number {
  if (!Number.isSafeInteger(value) || (value as number) < from || (value as number) > to)
    throw damaged('a number is missing or out of range')
  return value as number
}

export function asNumber(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw damaged('a number is missing')
  return value
}

/** The latest time that can be formatted, in milliseconds. */
const lastTime = 8.64e15

export function asTime(value: unknown): number {
  return asInteger(value, 0, lastTime)
}

/** The optional metadata of a checkpoint or fork. */
export function asMetadata(value: unknown): { readonly metadata?: JsonObject } {
  return value === undefined ? {} : { metadata: checked(() => parseJsonObject('metadata', value)) }
}

export function asText(value: unknown, maxBytes: number): string {
  return checked(() => parseText('text', value as string, maxBytes))
}

const hashPattern = /^[0-9a-f]{64}$/
const addressPattern = /^[0-9a-f]{40}$/

export function asHash(value: unknown): string {
  if (typeof value !== 'string' || !hashPattern.test(value)) throw damaged('a hash is malformed')
  return value
}

export function asAddress(value: unknown): string {
  if (typeof value !== 'string' || !addressPattern.test(value)) throw damaged('an address is malformed')
  return value
}
