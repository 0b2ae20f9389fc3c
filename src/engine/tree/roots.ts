import { present } from '../base/present.js'
import { assert } from '../base/errors.js'
import { decodeNode, encodeNode } from './codec.js'
import type { EncodedNode } from './encoded.js'
import { Dir } from './node.js'
import { sameXattrs } from './xattrs.js'

/**
 * Frozen roots that outlast their session: baselines, revisions, snapshots. A durable store has their nodes,
 * and a root can be loaded again from its address ({@link StoredRoots}). Otherwise, the root itself is kept
 * ({@link MemoryRoots}).
 */
export abstract class RootStore {
  /** Roots in memory by address. They let sessions of one revision share the nodes below it. */
  readonly #loaded = new Map<string, WeakRef<Dir>>()
  readonly #cleared = new FinalizationRegistry<string>((address) => {
    if (this.#loaded.get(address)?.deref() === undefined) this.#loaded.delete(address)
  })

  /**
   * Resolves when the root can be loaded again from the result, which represents the root in records. `wrote` receives
   * the size of the JSON of the nodes that had to be stored, in characters.
   */
  abstract save(root: Dir, wrote?: (size: number) => void): Promise<EncodedNode>

  /** Keeps a root in memory for as long as the engine, where the store does not have it. */
  abstract retain(root: Dir): void

  /** Like {@link retain}, for the roots in one record. They replace the earlier roots of that record. */
  abstract retainFor(key: string, roots: readonly Dir[]): void

  load(encoded: EncodedNode): Dir {
    const decoded = decodeNode(encoded)
    assert(decoded instanceof Dir && decoded.address !== undefined, 'a root is a directory with an address')
    const { address } = decoded
    const known = this.#loaded.get(address)?.deref()
    if (known !== undefined && sameAttributes(known, decoded)) return known
    if (known !== undefined) {
      // The address covers the directory's entries, but not its own attributes.
      decoded.pages = known.pages
      decoded.wide = known.wide
      return decoded
    }
    this.checkLoadable(address)
    this.#remember(decoded, address)
    return decoded
  }

  /**
   * Checks a root that is not in memory.
   *
   * @throws {EngineError} DATA_LOSS if the nodes were only in memory.
   */
  protected abstract checkLoadable(address: string): void

  /** Remembers a root that already has its address. */
  protected saved(root: Dir): EncodedNode {
    const address = present(root.address, 'the address of a root')
    this.#remember(root, address)
    return encodeNode(root, () => address)
  }

  #remember(root: Dir, address: string): void {
    if (this.#loaded.get(address)?.deref() === root) return
    this.#loaded.set(address, new WeakRef(root))
    this.#cleared.register(root, address)
  }
}

function sameAttributes(a: Dir, b: Dir): boolean {
  return (
    a.ino === b.ino &&
    a.mode === b.mode &&
    a.mtime === b.mtime &&
    a.ctime === b.ctime &&
    a.birthtime === b.birthtime &&
    a.links?.address === b.links?.address &&
    sameXattrs(a.xattrs, b.xattrs)
  )
}
