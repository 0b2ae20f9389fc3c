import type { Environment } from '../base/environment.js'
import { assert, EngineError } from '../base/errors.js'
import type { IdSource } from '../base/ids.js'
import { limits } from '../base/limits.js'
import { runInSlices } from '../base/slices.js'
import { keys } from '../storage/keys.js'
import type { Store } from '../storage/store.js'
import { decodeNode, encodeNode } from './codec.js'
import type { EncodedNode } from './encoded.js'
import { flushTree, type Flushed } from './flush.js'
import { Dir } from './node.js'
import type { NodeLoader } from './node-loader.js'
import type { NodeCache } from './node-cache.js'
import { sameXattrs } from './xattrs.js'

/**
 * Frozen roots that outlast their session: baselines, revisions, snapshots. On a durable store their nodes
 * are written and a root is found again by its address; elsewhere the root itself is kept.
 */
export class RootStore {
  readonly #store: Store
  readonly #environment: Environment
  readonly #ids: IdSource
  readonly #nodes: NodeCache
  readonly #loader: NodeLoader
  /** Only of a store that is not durable. */
  readonly #retained = new Set<Dir>()
  /** Roots in memory by address, so that sessions of one revision share the nodes below it. */
  readonly #loaded = new Map<string, WeakRef<Dir>>()
  readonly #cleared = new FinalizationRegistry<string>((address) => {
    if (this.#loaded.get(address)?.deref() === undefined) this.#loaded.delete(address)
  })

  /** One flush at a time: an address says that the node is in the store's queue, or stored. */
  #flushing: Promise<void> = Promise.resolve()
  /** Flushes whose commits failed. */
  #failures = 0

  constructor(
    store: Store,
    parts: {
      readonly environment: Environment
      readonly ids: IdSource
      readonly nodes: NodeCache
      readonly loader: NodeLoader
    },
  ) {
    this.#store = store
    this.#environment = parts.environment
    this.#ids = parts.ids
    this.#nodes = parts.nodes
    this.#loader = parts.loader
  }

  /**
   * Resolves when what was new in it is stored, and all else is stored or queued before; the result stands for
   * the root in records. On a store that is not
   * durable a root lasts as long as somebody holds it, see {@link retain}.
   */
  async save(root: Dir): Promise<EncodedNode> {
    if (this.#store.capabilities.durable) {
      const turn = this.#flushing.then(() => this.#flush(root))
      this.#flushing = turn.then(
        () => undefined,
        () => undefined,
      )
      // The next flush may start: its commits are behind these in the store's queue.
      const { stored } = await turn
      await stored
    } else {
      root.address ??= this.#ids.newId()
      if (root.links !== undefined) root.links.address ??= this.#ids.newId()
    }
    this.#remember(root, root.address!)
    return encodeNode(root, () => root.address!)
  }

  /** Holds a root of a store that is not durable for as long as the engine. */
  retain(root: Dir): void {
    if (!this.#store.capabilities.durable) this.#retained.add(root)
  }

  load(encoded: EncodedNode): Dir {
    const decoded = decodeNode(encoded)
    assert(decoded instanceof Dir && decoded.address !== undefined, 'a root is a directory with an address')
    const { address } = decoded
    const known = this.#loaded.get(address)?.deref()
    if (known !== undefined && sameAttributes(known, decoded)) return known
    if (known !== undefined) {
      // The address names what is in the directory; its own attributes stand outside.
      decoded.pages = known.pages
      decoded.wide = known.wide
      return decoded
    }
    if (!this.#store.capabilities.durable)
      throw new EngineError('DATA_LOSS', `the tree ${address} is not in memory any more`, { address })
    this.#remember(decoded, address)
    return decoded
  }

  #remember(root: Dir, address: string): void {
    if (this.#loaded.get(address)?.deref() === root) return
    this.#loaded.set(address, new WeakRef(root))
    this.#cleared.register(root, address)
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
    // Nodes that were passed over, because a flush before this one had handed them over, are not stored.
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
