/** Checks of arguments other than paths and data. This file uses nothing from Node. */
import { argumentError, rangeError, typeError, valueError } from './argument-errors.js'

const noOptions = {}

const uint32Max = 2 ** 32 - 1

/** Returns options that are an object, or an empty object if there are none. */
export function toObject(options: unknown): object {
  if (options === undefined || typeof options === 'function') return noOptions
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw typeError('options', 'of type object', options)
  return options
}

export function checkSignal(
  signal: unknown,
  name = 'options.signal',
): asserts signal is AbortSignal | undefined {
  if (signal === undefined) return
  if (typeof signal !== 'object' || signal === null || !('aborted' in signal))
    throw typeError(name, 'an instance of AbortSignal', signal)
}

export function checkBoolean(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw typeError(name, 'of type boolean', value)
  return value
}

/** Throws for anything but an integer from `min` to `max`. */
export function checkInteger(
  name: string,
  value: unknown,
  min?: number,
  max = Number.MAX_SAFE_INTEGER,
): number {
  if (typeof value !== 'number') throw typeError(name, 'of type number', value)
  if (!Number.isInteger(value)) throw rangeError(name, 'an integer', value)
  const least = min ?? Number.MIN_SAFE_INTEGER
  if (value < least || value > max) throw rangeError(name, `>= ${least} && <= ${max}`, value)
  return value
}

export function toOwner(name: string, id: unknown): number {
  return checkInteger(name, id, -1, uint32Max)
}

/**
 * Parses a mode, which is octal text or a number, and keeps only the permission bits. Without a fallback, a
 * missing mode is an error.
 */
export function toMode(mode: unknown, fallback?: number): number {
  if (fallback !== undefined && (mode === undefined || mode === null)) return fallback
  if (typeof mode === 'string') {
    if (/^[0-7]+$/.test(mode)) return Number.parseInt(mode, 8) & 0o7777
    throw valueError('mode', 'must be a 32-bit unsigned integer or an octal string', mode)
  }
  return checkInteger('mode', mode, 0, uint32Max) & 0o7777
}

/** Checks the three mode bits of access and copyFile. */
export function toModeBits(mode: unknown): number {
  if (mode === undefined || mode === null || typeof mode === 'function') return 0
  if (typeof mode !== 'number')
    throw argumentError('ERR_INVALID_ARG_TYPE', 'mode must be int32 or null/undefined')
  if (mode >= 0 && mode <= 7) return Math.trunc(mode)
  throw Object.assign(new RangeError('mode is out of range: >= 0 && <= 7'), { code: 'ERR_OUT_OF_RANGE' })
}

/**
 * Converts a time in seconds or a Date to milliseconds since the epoch. As in Node, a negative number means
 * `now`.
 */
export function toTime(time: unknown, now: () => number, name = 'time'): number {
  const seconds = typeof time === 'string' && time !== '' ? Number(time) : time
  if (typeof seconds === 'number' && Number.isFinite(seconds)) {
    // A double of seconds has more digits than the time. Round to whole nanoseconds.
    return typeof time === 'number' && seconds < 0 ? now() : Math.round(seconds * 1e9) / 1e6
  }
  if (time instanceof Date) {
    try {
      return Date.prototype.getTime.call(time)
    } catch {
      // The object only has the prototype of a Date.
    }
  }
  throw typeError(name, 'an instance of Date or an Time in seconds', time)
}

interface RemoveOptions {
  readonly recursive?: boolean
  readonly force?: boolean
  readonly maxRetries?: number
  readonly retryDelay?: number
}

const removeDefaults = { recursive: false, force: false, maxRetries: 0, retryDelay: 100 }

/** Checks the options of rm and rmdir. As in Node, an option that is undefined is an error. */
export function toRemoveOptions(options: unknown): { recursive: boolean; force: boolean } {
  const given: RemoveOptions = toObject(options)
  const { recursive, force, maxRetries, retryDelay } = { ...removeDefaults, ...given }
  checkBoolean('options.recursive', recursive)
  checkInteger('options.retryDelay', retryDelay, 0, 2 ** 31 - 1)
  checkInteger('options.maxRetries', maxRetries, 0, 2 ** 32 - 1)
  checkBoolean('options.force', force)
  return { recursive, force }
}

/** Checks the new length of a truncated file. */
export function toLength(length: unknown): number {
  return length === undefined || typeof length === 'function' ? 0 : Math.max(0, checkInteger('len', length))
}
