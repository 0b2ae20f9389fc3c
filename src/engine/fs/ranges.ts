import { Buffer } from 'node:buffer'
import { limits } from '../base/limits.js'
import { rangeError, typeError, valueError } from './argument-errors.js'
import { checkInteger } from './values.js'
import { toBuffer } from './arguments.js'
import type { Form } from './calls.js'

/** A part of a caller's buffer, and its position in the file; −1 is the current position. */
export interface ReadRange {
  readonly buffer: ArrayBufferView
  readonly offset: number
  readonly length: number
  readonly position: number
}

interface RangeOptions {
  readonly buffer?: unknown
  readonly offset?: unknown
  readonly length?: unknown
  readonly position?: unknown
}

const int32Max = 2 ** 31 - 1

/**
 * Parses `(buffer, offset, length, position)`, `(buffer, options)` or, in the forms in which Node allows it,
 * `(options)`.
 */
export function toReadRange(form: Form, parameters: readonly unknown[]): ReadRange {
  const [first, second] = parameters
  let given: RangeOptions
  if (ArrayBuffer.isView(first) || form === 'sync' || (form === 'callback' && second !== undefined)) {
    toBuffer(first)
    if (typeof second === 'object' && (second !== null || form === 'sync'))
      given = { ...second, buffer: first }
    else given = { buffer: first, offset: second, length: parameters[2], position: parameters[3] }
  } else {
    if (first !== undefined && first !== null && (typeof first !== 'object' || Array.isArray(first)))
      throw typeError('options', 'of type object', first)
    given = { buffer: Buffer.alloc(limits.readBufferBytes), ...(first as RangeOptions | undefined) }
  }
  const buffer = toBuffer(given.buffer)
  const offset = given.offset == null ? 0 : checkInteger('offset', given.offset, 0)
  const length = given.length == null ? buffer.byteLength - offset : toReadLength(form, given.length)
  if (length === 0) return { buffer, offset, length, position: -1 }
  if (buffer.byteLength === 0) throw valueError('buffer', 'is empty and cannot be written', buffer)
  if (length < 0) throw rangeError('length', '>= 0', length)
  if (offset + length > buffer.byteLength)
    throw rangeError('length', `<= ${buffer.byteLength - offset}`, length)
  return { buffer, offset, length, position: toReadPosition(form, given.position) }
}

/**
 * As in Node, the callback and synchronous forms truncate a length to an integer. The promise form accepts
 * only integers.
 */
function toReadLength(form: Form, length: unknown): number {
  return form === 'promise'
    ? checkInteger('length', length, -Number.MAX_VALUE, Number.MAX_VALUE)
    : (length as number) | 0
}

function toReadPosition(form: Form, position: unknown): number {
  if (position === undefined || position === null) return -1
  if (form === 'promise') return toPosition(position) ?? -1
  if (typeof position === 'bigint') {
    const [min, max] = [-(2n ** 63n), 2n ** 63n - 1n]
    if (position < min || position > max) throw rangeError('position', `>= ${min} && <= ${max}`, position)
    return Number(position)
  }
  if (typeof position !== 'number') throw typeError('position', 'of type bigint or integer', position)
  return checkInteger('position', position, -1)
}

/** Parses `(buffer, offset, length, position)` or `(buffer, options)`. */
export function toWriteRange(
  buffer: ArrayBufferView,
  parameters: readonly unknown[],
): { offset: number; length: number; position: number | undefined } {
  const [second] = parameters
  const {
    offset: givenOffset,
    length: givenLength,
    position,
  }: RangeOptions = typeof second === 'object'
    ? (second ?? {})
    : { offset: second, length: parameters[1], position: parameters[2] }
  const offset = givenOffset == null ? 0 : checkInteger('offset', givenOffset, 0)
  const size = buffer.byteLength
  const length = typeof givenLength === 'number' ? givenLength : size - offset
  if (offset > size) throw rangeError('offset', `<= ${size}`, offset)
  if (length > size - offset) throw rangeError('length', `<= ${size - offset}`, length)
  if (length < 0) throw rangeError('length', '>= 0', length)
  checkInteger('length', length, 0, int32Max)
  return { offset, length, position: toPosition(position) }
}

/**
 * Returns the start position of a call. Any value that is not a position gives undefined, the current
 * position.
 */
export function toPosition(position: unknown): number | undefined {
  return Number.isSafeInteger(position) && (position as number) >= 0 ? (position as number) : undefined
}
