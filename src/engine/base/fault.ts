/**
 * Thrown by synchronous code that needs something that is not loaded, such as a node, or a content hash that
 * is not computed yet. The driver awaits `resolve` and runs the code again; see {@link whenLoaded}.
 */
export class Fault {
  readonly resolve: () => Promise<void>
  /**
   * Releases the data that `resolve` holds for the code that threw the fault. Called once that code has
   * finished.
   */
  readonly release: (() => void) | undefined

  constructor(resolve: () => Promise<void>, release?: () => void) {
    this.resolve = resolve
    this.release = release
  }
}

/**
 * Runs code again after each fault, until it finishes. The code must have no effect before its last fault.
 * `first` is a fault that the code has already thrown.
 */
export async function whenLoaded<T>(attempt: () => T, first?: Fault): Promise<T> {
  let fault = first
  if (fault === undefined) {
    // Most of the time everything is loaded, and this costs one promise.
    try {
      return attempt()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      fault = thrown
    }
  }
  const held: Fault[] = []
  try {
    return await whenLoadedHolding(attempt, held, fault)
  } finally {
    releaseAll(held)
  }
}

/**
 * Like {@link whenLoaded}, but keeps the data that the faults hold. It adds the faults to `held`, which the
 * caller must pass to {@link releaseAll}.
 */
export async function whenLoadedHolding<T>(attempt: () => T, held: Fault[], first?: Fault): Promise<T> {
  for (let fault = first; ;) {
    if (fault !== undefined) {
      held.push(fault)
      await fault.resolve()
    }
    try {
      return attempt()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      fault = thrown
    }
  }
}

/** Releases the data that faults hold, and removes them from the list. */
export function releaseAll(held: Fault[]): void {
  for (const fault of held.splice(0)) fault.release?.()
}
