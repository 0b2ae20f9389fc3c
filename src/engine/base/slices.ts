import type { Environment } from './environment.js'
import { Fault } from './fault.js'
import { limits } from './limits.js'

/** Long work cut into steps; a step yields nothing, or a promise that it needs awaited. */
export type Steps<T> = Generator<Promise<void> | undefined, T, void>

/** Runs long work in slices of a few milliseconds that leave the event loop free in between. */
export async function runInSlices<T>(work: Steps<T>, environment: Environment): Promise<T> {
  let sliceStart = environment.monotonicMs()
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    if (step.value !== undefined) await step.value
    if (environment.monotonicMs() - sliceStart >= limits.sliceMs) {
      await nextTurn()
      sliceStart = environment.monotonicMs()
    }
  }
}

/** Inside steps: runs `attempt` until it no longer faults. */
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
