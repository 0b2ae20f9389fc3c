import { setImmediate } from 'node:timers/promises'
import { limits } from '../../engine/ports.js'

/** Long work rests when its slice is used up, so that the event loop keeps turning. */
export class Pacer {
  readonly #signal: AbortSignal
  #end = performance.now() + limits.sliceMs

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /** True when {@link rest} is due. Cheap. */
  get due(): boolean {
    return performance.now() >= this.#end
  }

  /** Gives the event loop a turn. Throws the signal's reason when it was aborted. */
  async rest(): Promise<void> {
    await setImmediate()
    this.#signal.throwIfAborted()
    this.#end = performance.now() + limits.sliceMs
  }
}
