import type { Core } from '../../session/core.js'
import { treeEntries } from '../../session/reads/tree-entries.js'
import type { Dir } from '../../tree/node.js'
import type { Archives } from './source-ports.js'

/** Writes trees as archives. */
export class TreeExports {
  readonly #archives: () => Promise<Archives>

  constructor(archives: () => Promise<Archives>) {
    this.#archives = archives
  }

  /** A tar of a state, or of a directory in it. All errors are thrown while the tar is read. */
  tar(core: Core, state: Promise<Dir>, path: string | undefined): AsyncIterable<Uint8Array> {
    // The reader keeps this object, and so the pin.
    const pinned = state.then((root) => {
      const owner = { root }
      core.pins.pin({ roots: [root], owner })
      return owner
    })
    // The reader gets the error. Without a reader, the rejection must count as handled.
    pinned.catch(() => undefined)
    const archives = this.#archives
    async function* read(): AsyncGenerator<Uint8Array> {
      const { root } = await pinned
      yield* (await archives()).writeTar(treeEntries(core, root, path))
    }
    return { [Symbol.asyncIterator]: read }
  }
}
