import { Buffer } from 'node:buffer'
import type { Steps } from '../../../engine/ports.js'
import { handlerLimits } from '../limits.js'

/** Whether the strings of a response may take more bytes in JSON. It looks only at their lengths. */
export function mayExceed(response: object, bytes: number): boolean {
  return leftAfter(response, bytes) < 0
}

/** Finds out how many bytes the strings of a response take in JSON, with a comma after each. */
export function* stringBytes(value: unknown): Steps<number, undefined> {
  if (typeof value === 'string') {
    yield
    return Buffer.byteLength(JSON.stringify(value)) + 1
  }
  let bytes = 0
  for (const inner of valuesIn(value)) bytes += yield* stringBytes(inner)
  return bytes
}

function leftAfter(value: unknown, bytes: number): number {
  if (typeof value === 'string') return bytes - value.length * handlerLimits.unitBytes - 3
  let left = bytes
  for (const inner of valuesIn(value)) {
    left = leftAfter(inner, left)
    if (left < 0) break
  }
  return left
}

/** Contents have a limit of their own. */
function valuesIn(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value) ? Object.values(value) : []
}
