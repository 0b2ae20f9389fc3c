import { itemAt } from '../base/present.js'
import type { Dir, Page } from './node.js'

/** The rough memory of a loaded node: bytes for each character of its JSON, and bytes for the node itself. */
const bytesPerCharacter = 3
const entryBytes = 200

/**
 * The stored tree nodes in memory, within a budget. The oldest ones are unloaded, and read again on the next
 * use. Unloading waits for a turn of the event loop, so that synchronous work finds the nodes that it loaded.
 * Nothing is unloaded while an operation waits for a node, because it also needs the nodes that it loaded
 * earlier.
 */
export class NodeCache {
  readonly #budgetBytes: number
  #nodes: (Dir | Page)[] = []
  #sizes: number[] = []
  #bytes = 0
  #waiting = 0
  #scheduled = false

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
  add(node: Dir | Page, length: number): void {
    if (this.#budgetBytes === Number.POSITIVE_INFINITY) return
    const bytes = length * bytesPerCharacter + entryBytes
    this.#nodes.push(node)
    this.#sizes.push(bytes)
    this.#bytes += bytes
    this.#schedule()
  }

  /** Waits for a node that is being read. */
  async wait(reading: Promise<void>): Promise<void> {
    this.#waiting++
    try {
      await reading
    } finally {
      this.#waiting--
      this.#schedule()
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#bytes <= this.#budgetBytes) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (this.#waiting === 0) this.#unload()
    })
  }

  /** Unloads the oldest nodes, down to three quarters of the budget, so that this seldom happens. */
  #unload(): void {
    let count = 0
    for (; this.#bytes > this.#budgetBytes * 0.75; count++) {
      this.#bytes -= itemAt(this.#sizes, count)
      unload(itemAt(this.#nodes, count))
    }
    this.#nodes = this.#nodes.slice(count)
    this.#sizes = this.#sizes.slice(count)
  }
}

function unload(node: Dir | Page): void {
  if ('pages' in node) node.pages = null
  else {
    node.names = null
    node.nodes = []
  }
}
