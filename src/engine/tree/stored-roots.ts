import type { Environment } from '../base/environment.js'
import { EngineError } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { runInSlices } from '../base/cooperative.js'
import { keys } from '../storage/keys.js'
import type { Store } from '../storage/store.js'
import type { EncodedNode } from './encoded.js'
import { BlockBody, UnloadedBody } from '../cas/body.js'
import { flushTree, type Flushed, type FlushedFile } from './flush.js'
import type { Dir } from './node.js'
import type { NodeCache } from './node-cache.js'
import { RootStore } from './roots.js'

/**
 * The roots of a durable store. It writes the nodes of a root, and reads them again from the root's address.
 */
export class StoredRoots extends RootStore {
  readonly #store: Store
  readonly #environment: Environment
  readonly #nodes: NodeCache

  /** One flush at a time, because an address means that the node is stored or in the store's queue. */
  #flushing: Promise<void> = Promise.resolve()
  /** The number of flushes whose commits failed. */
  #failures = 0

  constructor(store: Store, parts: { readonly environment: Environment; readonly nodes: NodeCache }) {
    super()
    this.#store = store
    this.#environment = parts.environment
    this.#nodes = parts.nodes
  }

  /**
   * Resolves when the new nodes of the root are stored. All its other nodes are stored or were queued
   * earlier.
   */
  async save(root: Dir, wrote?: (size: number) => void): Promise<EncodedNode> {
    const turn = this.#flushing.then(() => this.#flush(root, wrote))
    this.#flushing = turn.then(
      () => undefined,
      () => undefined,
    )
    // The next flush may start, because its commits follow these in the store's queue.
    const { stored } = await turn
    await stored
    return this.saved(root)
  }

  retain(): void {
    // The store has the root.
  }

  retainFor(): void {
    // The store has the roots.
  }

  protected checkLoadable(): void {
    // Loading the nodes shows whether they exist.
  }

  /** Resolves when the nodes are in the store's queue. `stored` resolves when they are stored. */
  async #flush(root: Dir, wrote: ((size: number) => void) | undefined): Promise<{ stored: Promise<void> }> {
    const failures = this.#failures
    const flushed: Flushed[] = []
    const files: FlushedFile[] = []
    const nodes: [string, string][] = []
    await runInSlices(
      flushTree(root, {
        write: (address, json) => {
          nodes.push([keys.node(address), json])
        },
        addressed: flushed,
        files,
      }),
      this.#environment,
    )
    wrote?.(nodes.reduce((size, [, json]) => size + json.length, 0))
    const stored = this.#commit(nodes, failures)
      .then(() => {
        for (const { node, length } of flushed) this.#nodes.add(node, length)
        for (const one of files) this.#letUnload(one)
      })
      .catch((error: unknown) => {
        this.#failures++
        for (const { node } of flushed) node.address = undefined
        throw error
      })
    return { stored }
  }

  /** Lets the stored blocks of a file leave memory. Later flushes do not write them again. */
  #letUnload({ file, body, address, length }: FlushedFile): void {
    if (file.body !== body || !(body instanceof BlockBody)) return
    const stored = new UnloadedBody(address)
    stored.body = body
    file.body = stored
    this.#nodes.add(stored, length)
  }

  /** Passes all nodes to the store synchronously. */
  async #commit(nodes: readonly [string, string][], failures: number): Promise<void> {
    // An earlier flush failed. Nodes that this flush skipped, because the earlier one had written them, are
    // not stored.
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
