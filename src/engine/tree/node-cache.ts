import { itemAt } from '../base/present.js'
import type { Dir, Page } from './node.js'

/** The rough memory of a loaded node: for each character of its JSON, and in addition to those. */
const bytesPerCharacter = 3
const entryBytes = 200

/**
 * The tree nodes in memory that the store has, within a budget: the oldest are unloaded, and read again on the next
 * use. Nothing is unloaded before the event loop has a turn, so that synchronous work finds the nodes it loaded; nor
 * while an operation waits for a node, since it needs the earlier ones too.
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

  /** The loaded nodes that could be unloaded, roughly. */
  get bytes(): number {
    return this.#bytes
  }

  /** Call it with each node that has an address, its content in memory and, as JSON of this length, in the store. */
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

  /** Oldest first, down to three quarters, so that it seldom happens. */
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
