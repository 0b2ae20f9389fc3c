/**
 * Thrown by synchronous code that met something not loaded (a node, a content hash that has to be
 * computed). The driver awaits `resolve` and runs the code again; see {@link whenLoaded}.
 */
export class Fault {
  readonly resolve: () => Promise<void>
  /** Releases what `resolve` holds for the code that threw the fault. Called when that code has run to its end. */
  readonly release: (() => void) | undefined

  constructor(resolve: () => Promise<void>, release?: () => void) {
    this.resolve = resolve
    this.release = release
  }
}

/** Runs code that has no effect before its last fault, until it gets through. `first` is a fault that it threw already. */
export async function whenLoaded<T>(attempt: () => T, first?: Fault): Promise<T> {
  let fault = first
  if (fault === undefined) {
    // Most of the time everything is loaded: then this costs one promise.
    try {
      return attempt()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      fault = thrown
    }
  }
  const releases: (() => void)[] = []
  try {
    return await whenHeld(attempt, releases, fault)
  } finally {
    for (const release of releases) release()
  }
}

/** As {@link whenLoaded}, but the faults keep their holds; the caller calls the releases that it gets. */
export async function whenHeld<T>(attempt: () => T, releases: (() => void)[], first?: Fault): Promise<T> {
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
