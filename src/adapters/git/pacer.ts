import { setImmediate } from 'node:timers/promises'
import { limits } from '../../engine/ports.js'

/** Long work asks `due()` after each step and rests when told, so that the event loop keeps turning. */
export interface Pacer {
  /** True when the slice is used up. Cheap. */
  due(): boolean
  /** Gives the event loop a turn. Throws the signal's reason when it was aborted. */
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
