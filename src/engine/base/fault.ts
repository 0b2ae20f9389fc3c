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
  const releases: (() => void)[] = []
  try {
    return await whenLoadedHolding(attempt, releases, fault)
  } finally {
    for (const release of releases) release()
  }
}

/**
 * Like {@link whenLoaded}, but keeps the data that the faults hold. It adds their release functions to
 * `releases`, which the caller must call.
 */
export async function whenLoadedHolding<T>(
  attempt: () => T,
  releases: (() => void)[],
  first?: Fault,
): Promise<T> {
  for (let fault = first; ;) {
    if (fault !== undefined) {
      if (fault.release !== undefined) releases.push(fault.release)
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
