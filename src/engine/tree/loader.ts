import { present } from '../base/present.js'
import { Fault } from '../base/fault.js'
import { keys } from '../storage/keys.js'
import { mustWait } from '../storage/sync-or-async.js'
import type { Store } from '../storage/store.js'
import { UnloadedBody } from '../cas/body.js'
import { decodeBlocksInto, decodeContentInto, decodePageInto } from './codec.js'
import { missingNode } from './encoded.js'
import { Dir, type FileNode, type Page } from './node.js'
import type { NodeLoader } from './node-loader.js'
import type { NodeCache } from './node-cache.js'
import type { Pins } from './pins.js'

/** The JSON of nodes, by their keys. */
type NodeTexts = ReadonlyMap<string, string>

const nothing: NodeTexts = new Map()

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

  get unloading(): Promise<void> | undefined {
    return this.#nodes.unloading
  }

  loadDir(dir: Dir): Page[] {
    return this.#load(present(dir.address, 'the address of a directory'), (json, near) => {
      // Two faults on one node may both resolve. The second must not undo changes made after the first.
      if (dir.pages !== null) return dir.pages
      const pages = decodeContentInto(dir, json)
      this.#nodes.add(dir, json.length)
      for (const page of pages) {
        this.#loadNearPage(page, near)
        this.#loadNearDirs(page, near)
      }
      return pages
    })
  }

  loadPage(page: Page): string[] {
    return this.#load(present(page.address, 'the address of a page'), (json, near) => {
      if (page.names !== null) return page.names
      const names = decodePageInto(page, json)
      this.#nodes.add(page, json.length)
      this.#loadNearDirs(page, near)
      return names
    })
  }

  loadBody(file: FileNode): void {
    const { body } = file
    if (!(body instanceof UnloadedBody) || body.body !== null) return
    this.#load(body.address, (json) => {
      if (body.body !== null) return
      decodeBlocksInto(body, json)
      this.#nodes.add(body, json.length)
    })
  }

  /** Loads a page that the store returned with its directory. */
  #loadNearPage(page: Page, near: NodeTexts): void {
    if (page.names !== null || page.address === undefined) return
    this.#loadNear(page, page.address, near, decodePageInto)
  }

  /** Loads the directories of a page that the store returned with it. */
  #loadNearDirs({ nodes }: Page, near: NodeTexts): void {
    if (near.size === 0) return
    for (const node of nodes) {
      if (!(node instanceof Dir) || node.pages !== null || node.address === undefined) continue
      this.#loadNear(node, node.address, near, decodeContentInto)
    }
  }

  #loadNear<Node extends Dir | Page>(
    node: Node,
    address: string,
    near: NodeTexts,
    decode: (node: Node, json: string) => unknown,
  ): void {
    const json = near.get(keys.node(address))
    if (json === undefined) return
    try {
      decode(node, json)
    } catch {
      // Damage is an error only when the node is used. It is then read again.
      return
    }
    this.#nodes.add(node, json.length)
  }

  #load<T>(address: string, decode: (json: string, near: NodeTexts) => T): T {
    if (this.#store.getSync !== undefined) {
      try {
        const json = this.#store.getSync(keys.node(address))
        if (json === undefined) throw missingNode(address)
        return decode(json, nothing)
      } catch (error) {
        if (!mustWait(error)) throw error
      }
    }
    const read = async (): Promise<void> => {
      const key = keys.node(address)
      const near = (await this.#store.getNodes?.(key)) ?? nothing
      const json = this.#store.getNodes === undefined ? await this.#store.get(key) : near.get(key)
      if (json === undefined) throw missingNode(address)
      decode(json, near)
    }
    let release: (() => void) | undefined
    throw new Fault(
      () => {
        release = this.#nodes.hold()
        return read()
      },
      () => release?.(),
    )
  }
}
