import { EngineError } from '../base/errors.js'
import type { IdSource } from '../base/ids.js'
import type { EncodedNode } from './encoded.js'
import type { Dir } from './node.js'
import { RootStore } from './roots.js'

/** The roots of a store that is not durable. A root lasts as long as something refers to it. */
export class MemoryRoots extends RootStore {
  readonly #ids: IdSource
  readonly #retained = new Set<Dir>()
  readonly #byKey = new Map<string, readonly Dir[]>()

  constructor(ids: IdSource) {
    super()
    this.#ids = ids
  }

  async save(root: Dir): Promise<EncodedNode> {
    root.address ??= this.#ids.newId()
    if (root.links !== undefined) root.links.address ??= this.#ids.newId()
    return this.saved(root)
  }

  retain(root: Dir): void {
    this.#retained.add(root)
  }

  retainFor(key: string, roots: readonly Dir[]): void {
    this.#byKey.set(key, roots)
  }

  protected checkLoadable(address: string): never {
    throw new EngineError('DATA_LOSS', `the tree ${address} is no longer in memory`, { address })
  }
}
