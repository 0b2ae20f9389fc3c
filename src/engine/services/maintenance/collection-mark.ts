import { DigestTable } from '../../base/digest-table.js'
import { TimeSlice } from '../../base/slices.js'
import type { BlobRef } from '../../cas/blob.js'
import type { Body } from '../../cas/body.js'
import type { Core } from '../../session/core.js'
import type { Redo } from '../../session/events.js'
import { keys } from '../../storage/keys.js'
import { readNow } from '../../storage/read-now.js'
import { missingNode, type EncodedNode } from '../../tree/codec.js'
import type { InUseNode } from '../../tree/in-use.js'
import { Dir, type Page } from '../../tree/node.js'
import {
  bodyReferences,
  encodedReferences,
  fileReferences,
  memoryReferences,
  storedReferences,
  type References,
  type StoredKind,
} from '../../tree/references.js'

/** Nodes that are read from a store at once. */
const readsAtOnce = 64

/**
 * Finds what roots lead to: addresses of tree nodes and hashes of blobs, 30 to 50 bytes of memory for each. Nothing
 * is loaded into the trees that are in memory.
 */
export class Marker implements References {
  readonly #core: Core
  readonly #signal: AbortSignal
  readonly #slice: TimeSlice
  readonly #nodes = new DigestTable()
  readonly #blobs = new DigestTable()
  readonly #unread: [address: string, kind: StoredKind][] = []
  /** Directories and pages that have no address. */
  readonly #seen = new Set<Dir | Page>()

  constructor(core: Core, signal: AbortSignal) {
    this.#core = core
    this.#signal = signal
    this.#slice = new TimeSlice(core.environment)
  }

  get size(): number {
    return this.#nodes.size + this.#blobs.size
  }

  hasNode(address: string): boolean {
    return this.#nodes.has(address)
  }

  hasBlob(hash: string): boolean {
    return this.#blobs.has(hash)
  }

  node(address: string, kind: StoredKind): void {
    if (this.#nodes.add(address) !== undefined) this.#unread.push([address, kind])
  }

  blob(hash: string): void {
    this.#blobs.add(hash)
  }

  /** A tree that a record names. DATA_LOSS where one of its nodes is missing. */
  async root(root: EncodedNode): Promise<void> {
    encodedReferences(root, this)
    await this.#readNodes()
  }

  body(body: Body): void {
    bodyReferences(body, this)
  }

  /** What replaying effects needs; read as they stand in an event. */
  redo(effects: readonly Redo[]): void {
    for (const effect of effects) {
      if (effect[0] === 'w') this.#value(effect[4])
      else if (effect[0] === 'o') this.#value(effect[2])
      else if (effect[0] === 'x') this.#value(effect[3])
      else if (effect[0] === 'p') for (const [, , blob] of effect[3]) this.#value(blob)
    }
  }

  /** What is in memory of a tree, or a file, and what of it is stored. */
  async inMemory(inUse: InUseNode): Promise<void> {
    if (!(inUse instanceof Dir)) {
      if (inUse.last !== undefined) fileReferences(inUse.last, this)
      return this.#readNodes()
    }
    const directories: Dir[] = [inUse]
    const references = {
      node: (address: string, kind: StoredKind): void => this.node(address, kind),
      blob: (hash: string): void => this.blob(hash),
      directory: (dir: Dir): void => {
        directories.push(dir)
      },
    }
    for (let dir = directories.pop(); dir !== undefined; dir = directories.pop()) {
      for (const [, value] of dir.xattrs ?? []) this.blob(value.hash)
      if (dir.links !== undefined) directories.push(dir.links)
      if (await this.#isStored(dir, 'directory')) continue
      for (const page of dir.pages ?? []) {
        if (await this.#isStored(page, 'page')) continue
        if (page.names !== null) memoryReferences(page.nodes, references)
        await this.rest()
      }
    }
    await this.#readNodes()
  }

  /** Lets others have a turn when it is time, and ends where the signal says so. */
  async rest(): Promise<void> {
    if (!this.#slice.over) return
    this.#signal.throwIfAborted()
    await this.#slice.next()
  }

  /**
   * Whether all of it is known from its address: it is read from the store then. Where the address was given just
   * now and its node is on the way, what is in memory says what it leads to.
   */
  async #isStored(node: Dir | Page, kind: StoredKind): Promise<boolean> {
    const { address } = node
    if (address !== undefined) {
      if (this.#nodes.has(address)) return true
      if ((await this.#read(address)) !== undefined) {
        this.node(address, kind)
        return true
      }
    }
    if (this.#seen.has(node)) return true
    this.#seen.add(node)
    return false
  }

  async #readNodes(): Promise<void> {
    while (this.#unread.length > 0) {
      const some = this.#unread.splice(-readsAtOnce)
      if (this.#core.store.getSync === undefined) {
        const texts = await Promise.all(some.map(async ([address]) => this.#read(address)))
        for (const [index, [address, kind]] of some.entries()) this.#take(address, kind, texts[index])
        await this.rest()
        continue
      }
      for (const [address, kind] of some) {
        const text = this.#read(address)
        this.#take(address, kind, typeof text === 'object' ? await text : text)
        await this.rest()
      }
    }
  }

  #take(address: string, kind: StoredKind, json: string | undefined): void {
    if (json === undefined) throw missingNode(address)
    storedReferences(kind, json, this)
  }

  #read(address: string): string | undefined | Promise<string | undefined> {
    return readNow(this.#core.store, keys.node(address))
  }

  #value(value: BlobRef | readonly [hash: string, length: number] | 0): void {
    if (value === 0) return
    this.blob('hash' in value ? value.hash : value[0])
  }
}
