import type { Environment } from '../base/environment.js'
import { EngineError } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { runInSlices } from '../base/slices.js'
import { keys } from '../storage/keys.js'
import type { Store } from '../storage/store.js'
import type { EncodedNode } from './encoded.js'
import { flushTree, type Flushed } from './flush.js'
import type { Dir } from './node.js'
import type { NodeLoader } from './node-loader.js'
import type { NodeCache } from './node-cache.js'
import { RootStore } from './roots.js'

/** For a durable store: the nodes of a root are written, and read again from its address. */
export class StoredRoots extends RootStore {
  readonly #store: Store
  readonly #environment: Environment
  readonly #nodes: NodeCache
  readonly #loader: NodeLoader

  /** One flush at a time: an address says that the node is in the store's queue, or stored. */
  #flushing: Promise<void> = Promise.resolve()
  /** Flushes whose commits failed. */
  #failures = 0

  constructor(
    store: Store,
    parts: { readonly environment: Environment; readonly nodes: NodeCache; readonly loader: NodeLoader },
  ) {
    super()
    this.#store = store
    this.#environment = parts.environment
    this.#nodes = parts.nodes
    this.#loader = parts.loader
  }

  /** Resolves when its new nodes are stored, and all others are stored or queued before. */
  async save(root: Dir): Promise<EncodedNode> {
    const turn = this.#flushing.then(() => this.#flush(root))
    this.#flushing = turn.then(
      () => undefined,
      () => undefined,
    )
    // The next flush may start: its commits come after these in the store's queue.
    const { stored } = await turn
    await stored
    return this.saved(root)
  }

  retain(): void {
    // The store has it.
  }

  retainFor(): void {
    // The store has them.
  }

  protected checkLoadable(): void {
    // Loading its nodes shows whether they are there.
  }

  /** Resolves when the nodes are handed to the store; `stored` when it has them. */
  async #flush(root: Dir): Promise<{ stored: Promise<void> }> {
    const failures = this.#failures
    const flushed: Flushed[] = []
    const nodes: [string, string][] = []
    await runInSlices(
      flushTree(root, {
        loader: this.#loader,
        write: (address, json) => {
          nodes.push([keys.node(address), json])
        },
        addressed: flushed,
      }),
      this.#environment,
    )
    const stored = this.#commit(nodes, failures)
      .then(() => {
        for (const { node, length } of flushed) this.#nodes.add(node, length)
      })
      .catch((error: unknown) => {
        this.#failures++
        for (const { node } of flushed) node.address = undefined
        throw error
      })
    return { stored }
  }

  /** Hands everything to the store at once. */
  async #commit(nodes: readonly [string, string][], failures: number): Promise<void> {
    // Nodes that were skipped, because an earlier flush had handed them over, are not stored.
    if (this.#failures !== failures)
      throw new EngineError(
        'STORE_FAILED',
        'the tree was not stored, because an earlier write failed; repeat the operation',
        { outcome: 'not-applied' },
      )
    const commits: Promise<boolean>[] = []
    let put: [string, string][] = []
    let bytes = 0
    for (const node of nodes) {
      put.push(node)
      bytes += node[1].length
      if (bytes < limits.importCommitBytes) continue
      commits.push(this.#store.commit({ put }))
      put = []
      bytes = 0
    }
    if (put.length > 0) commits.push(this.#store.commit({ put }))
    await Promise.all(commits)
  }
}
