import { setImmediate } from 'node:timers/promises'
import { limits } from '../../engine/ports.js'

/**
 * Keeps long work from blocking the event loop. After each step, the work calls `rest()` if `due()` is true.
 */
export interface Pacer {
  /** True when the current slice of time is used up. Cheap. */
  due(): boolean
  /** Lets the event loop run once. Throws the signal's reason if it was aborted. */
  rest(): Promise<void>
}

export function createPacer(signal: AbortSignal): Pacer {
  let end = performance.now() + limits.sliceMs
  return {
    due: () => performance.now() >= end,
    async rest() {
      await setImmediate()
      signal.throwIfAborted()
      end = performance.now() + limits.sliceMs
    },
  }
}
