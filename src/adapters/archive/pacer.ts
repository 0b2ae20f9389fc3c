import { setImmediate } from 'node:timers/promises'
import { limits } from '../../engine/ports.js'

/**
 * Keeps long work from blocking the event loop. After each step, the work calls `rest()` if `due` is true.
 */
export class Pacer {
  readonly #signal: AbortSignal
  #end = performance.now() + limits.sliceMs

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /** True when the current slice of time is used up. Cheap. */
  get due(): boolean {
    return performance.now() >= this.#end
  }

  /** Lets the event loop run once. Throws the signal's reason if it was aborted. */
  async rest(): Promise<void> {
    await setImmediate()
    this.#signal.throwIfAborted()
    this.#end = performance.now() + limits.sliceMs
  }
}
