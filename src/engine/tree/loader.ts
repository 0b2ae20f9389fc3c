import { present } from '../base/present.js'
import { Fault } from '../base/fault.js'
import { keys } from '../storage/keys.js'
import { mustWait } from '../storage/sync-or-async.js'
import type { Store } from '../storage/store.js'
import { UnloadedBody } from '../cas/body.js'
import { decodeBlocksInto, decodeContentInto, decodePageInto } from './codec.js'
import { missingNode } from './encoded.js'
import type { Dir, FileNode, Page } from './node.js'
import type { NodeLoader } from './node-loader.js'
import type { NodeCache } from './node-cache.js'
import type { Pins } from './pins.js'

/** Loads tree nodes from a store: synchronously if the store can, otherwise by throwing a Fault. */
export class StoreLoader implements NodeLoader {
  readonly pins: Pins | undefined
  readonly #store: Store
  readonly #nodes: NodeCache

  constructor(store: Store, nodes: NodeCache, pins?: Pins) {
    this.#store = store
    this.pins = pins
    this.#nodes = nodes
  }

  loadDir(dir: Dir): Page[] {
    return this.#load(present(dir.address, 'the address of a directory'), (json) => {
      // Two faults on one node may both resolve. The second must not undo changes made after the first.
      if (dir.pages !== null) return dir.pages
      const pages = decodeContentInto(dir, json)
      this.#nodes.add(dir, json.length)
      return pages
    })
  }

  loadPage(page: Page): string[] {
    return this.#load(present(page.address, 'the address of a page'), (json) => {
      if (page.names !== null) return page.names
      const names = decodePageInto(page, json)
      this.#nodes.add(page, json.length)
      return names
    })
  }

  loadBody(file: FileNode): void {
    const { body } = file
    if (!(body instanceof UnloadedBody) || body.body !== null) return
    this.#load(body.address, (json) => {
      if (body.body === null) decodeBlocksInto(body, json)
    })
  }

  #load<T>(address: string, decode: (json: string) => T): T {
    if (this.#store.getSync !== undefined) {
      try {
        const json = this.#store.getSync(keys.node(address))
        if (json === undefined) throw missingNode(address)
        return decode(json)
      } catch (error) {
        if (!mustWait(error)) throw error
      }
    }
    const read = async (): Promise<void> => {
      const json = await this.#store.get(keys.node(address))
      if (json === undefined) throw missingNode(address)
      decode(json)
    }
    throw new Fault(() => this.#nodes.wait(read()))
  }
}
