import type { Environment } from './environment.js'
import { Fault } from './fault.js'
import { limits } from './limits.js'

/**
 * Long work that is cut into steps. A step yields nothing, or a promise that must be awaited before the next
 * step.
 */
export type Steps<T> = Generator<Promise<void> | undefined, T, void>

/** Measures whether a loop has run so long that the event loop needs a turn. */
export class TimeSlice {
  readonly #environment: Environment
  #start: number

  constructor(environment: Environment) {
    this.#environment = environment
    this.#start = environment.monotonicMs()
  }

  get over(): boolean {
    return this.#environment.monotonicMs() - this.#start >= limits.sliceMs
  }

  async next(): Promise<void> {
    await nextTurn()
    this.#start = this.#environment.monotonicMs()
  }
}

/** Runs long work in slices of a few milliseconds, with turns of the event loop in between. */
export async function runInSlices<T>(work: Steps<T>, environment: Environment): Promise<T> {
  const slice = new TimeSlice(environment)
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    if (step.value !== undefined) await step.value
    if (slice.over) await slice.next()
  }
}

/** For use inside steps: runs `attempt` until it no longer faults. */
export function* loaded<T>(attempt: () => T): Steps<T> {
  for (;;) {
    try {
      return attempt()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      yield thrown.resolve()
    }
  }
}

/** Lets timers and sockets run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
