import { inNextTurn } from '../base/cooperative.js'
import { UnloadedBody } from '../cas/body.js'
import type { Dir, Page } from './node.js'

/** The rough memory of a loaded node: bytes for each character of its JSON, and bytes for the node itself. */
const bytesPerCharacter = 3
const entryBytes = 200

/** `number` counts the loaded nodes, from 0. */
interface LoadedNode {
  readonly node: Dir | Page | UnloadedBody
  readonly bytes: number
  readonly number: number
}

/**
 * The stored tree nodes in memory, within a budget. The oldest ones are unloaded, and read again on the next
 * use. Unloading waits for a turn of the event loop, so that synchronous work finds the nodes that it loaded.
 * An operation that waits for one node also needs the nodes that it loaded earlier, so it holds them.
 */
export class NodeCache {
  readonly #budgetBytes: number
  /** Oldest first. */
  readonly #loaded = new Set<LoadedNode>()
  #bytes = 0
  #count = 0
  /** Oldest first. */
  readonly #holds = new Set<{ readonly from: number }>()
  #unloading: Promise<void> | undefined

  constructor(budgetBytes: number) {
    this.#budgetBytes = budgetBytes
  }

  /** The rough memory of the loaded nodes that could be unloaded. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Call this with each node that has an address and a loaded content. `length` is that of the node's JSON in
   * the store.
   */
  add(node: Dir | Page | UnloadedBody, length: number): void {
    if (this.#budgetBytes === Number.POSITIVE_INFINITY) return
    const bytes = length * bytesPerCharacter + entryBytes
    this.#loaded.add({ node, bytes, number: this.#count++ })
    this.#bytes += bytes
    this.#schedule()
  }

  /** Keeps the nodes that are loaded from now on, until the returned function is called. */
  hold(): () => void {
    const hold = { from: this.#count }
    this.#holds.add(hold)
    return () => {
      this.#holds.delete(hold)
      this.#schedule()
    }
  }

  /**
   * Resolves after the unloading in the next turn of the event loop. Undefined if the nodes are within the budget. Without
   * this wait, calls that find everything at once could follow each other without a turn.
   */
  get unloading(): Promise<void> | undefined {
    return this.#unloading
  }

  #schedule(): void {
    if (this.#unloading !== undefined || this.#bytes <= this.#budgetBytes) return
    this.#unloading = new Promise((resolve) => {
      inNextTurn(() => {
        this.#unloading = undefined
        this.#unload()
        resolve()
      })
    })
  }

  /** Unloads the oldest nodes that are not held, down to three quarters of the budget, so that this seldom happens. */
  #unload(): void {
    const [oldest] = this.#holds
    const end = oldest?.from ?? this.#count
    for (const loaded of this.#loaded) {
      if (loaded.number >= end || this.#bytes <= this.#budgetBytes * 0.75) return
      this.#loaded.delete(loaded)
      this.#bytes -= loaded.bytes
      unload(loaded.node)
    }
  }
}

function unload(node: Dir | Page | UnloadedBody): void {
  if (node instanceof UnloadedBody) node.body = null
  else if ('pages' in node) node.pages = null
  else {
    node.names = null
    node.nodes = []
  }
}
