import type { Dir, FileNode } from './node.js'

/** What somebody may read later: a frozen directory, or a file that is held. */
export type InUseNode = Dir | { readonly last: FileNode | undefined }

const firstLimit = 1024

/**
 * What is read of trees that perhaps nothing in the store leads to any more, such as frozen roots that are being
 * listed or exported, and files that are open.
 */
export class InUse {
  /** By whom it is held. */
  readonly #held = new Map<symbol, InUseNode>()
  /** For as long as somebody has it. */
  #refs = new Set<WeakRef<InUseNode>>()
  #limit = firstLimit

  /** Until the result is called. */
  hold(node: InUseNode): () => void {
    const holder = Symbol()
    this.#held.set(holder, node)
    return () => {
      this.#held.delete(holder)
    }
  }

  /** Until the result is called, or the node is not in memory any more: for what nobody need say when it is done. */
  add(node: InUseNode): () => void {
    if (this.#refs.size >= this.#limit) {
      for (const ref of this.#refs) if (ref.deref() === undefined) this.#refs.delete(ref)
      this.#limit = Math.max(firstLimit, this.#refs.size * 2)
    }
    const ref = new WeakRef(node)
    this.#refs.add(ref)
    return () => {
      this.#refs.delete(ref)
    }
  }

  *nodes(): Generator<InUseNode> {
    yield* this.#held.values()
    for (const ref of this.#refs) {
      const node = ref.deref()
      if (node !== undefined) yield node
    }
  }
}
