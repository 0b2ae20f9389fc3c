/**
 * Thrown by synchronous code that met something not loaded (a node, a content hash that has to be
 * computed). Whoever drives it awaits `resolve` and runs it again; see {@link whenLoaded}.
 */
export class Fault {
  readonly resolve: () => Promise<void>

  constructor(resolve: () => Promise<void>) {
    this.resolve = resolve
  }
}

/** Runs code that has no effect before its last fault, until it gets through. */
export async function whenLoaded<T>(attempt: () => T): Promise<T> {
  for (;;) {
    try {
      return attempt()
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      await thrown.resolve()
    }
  }
}
