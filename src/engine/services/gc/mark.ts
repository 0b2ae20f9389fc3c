import { DigestCache } from '../../base/digest-cache.js'
import { DigestSet } from '../../base/digest-set.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/slices.js'
import type { Body } from '../../cas/body.js'
import type { Core } from '../../session/core.js'
import { contentsOf, type Redo } from '../../records/event.js'
import { keys } from '../../storage/keys.js'
import { getSyncOrAsync } from '../../storage/sync-or-async.js'
import { missingNode } from '../../tree/encoded.js'
import { Dir, type Page } from '../../tree/node.js'
import type { PinnedNode } from '../../tree/pins.js'
import {
  bodyReferences,
  encodedReferences,
  fileReferences,
  memoryReferences,
  storedReferences,
  type References,
  type StoredKind,
} from '../../tree/references.js'
import type { AnyRecordKind } from '../../records/index.js'
import { rest } from './run.js'

/** Nodes that are read at once from a store that reads asynchronously. */
const readsAtOnce = 16
/** Bytes of memory for each node that is known to be read. */
const bytesPerVisit = 20

/**
 * Finds what roots lead to: addresses of tree nodes and hashes of blobs. Nothing is loaded into the trees that are in
 * memory. Its own memory is bounded by the budget, however much there is to find: of very much it marks a little more
 * than is there, which the next collection finds, and reads nodes again that many roots lead to.
 */
export class Marker implements References {
  readonly #core: Core
  readonly #signal: AbortSignal
  readonly #slice: TimeSlice
  readonly #marks: DigestSet
  /** Nodes of which it is marked what they lead to, or will be. */
  readonly #visited: DigestCache
  readonly #unread: [address: string, kind: StoredKind][] = []
  /** Directories and pages that have no address. */
  readonly #seen = new Set<Dir | Page>()

  /** `memoryBytes`: about what the marks may have. */
  constructor(core: Core, signal: AbortSignal, memoryBytes: number) {
    this.#core = core
    this.#signal = signal
    const bytes = Math.min(Math.max(memoryBytes, limits.markMinBytes), limits.markMaxBytes)
    const filterBytes = powerOfTwo(bytes / 2)
    const [salt] = random(core)
    this.#marks = new DigestSet({ filterBytes, salt: salt! })
    this.#visited = new DigestCache(powerOfTwo(filterBytes / bytesPerVisit))
    this.#slice = new TimeSlice(core.environment)
  }

  /** Marked nodes and blobs, roughly. */
  get size(): number {
    return this.#marks.size
  }

  /** Of a node's address or a blob's hash, of which 24 digits are enough. */
  has(digest: string): boolean {
    return this.#marks.has(digest)
  }

  node(address: string, kind: StoredKind): void {
    if (!this.#visited.add(address)) return
    this.#marks.add(address)
    this.#unread.push([address, kind])
  }

  blob(hash: string): void {
    this.#marks.add(hash)
  }

  /** All that a record refers to. DATA_LOSS where the record is damaged, or a node is missing. */
  async record(kind: AnyRecordKind | undefined, key: string, json: string): Promise<void> {
    kind?.readReferences(json, key, {
      root: (root) => encodedReferences(root, this),
      blob: (hash) => this.blob(hash),
      // Records are marked by what they refer to; which of them go is decided elsewhere.
      record: () => undefined,
    })
    await this.#readNodes()
  }

  body(body: Body): void {
    bodyReferences(body, this)
  }

  /** What replaying effects needs; read as they stand in an event. */
  redo(effects: readonly Redo[]): void {
    for (const [hash] of contentsOf(effects)) this.blob(hash)
  }

  /** What is in memory of a tree, or a file, and what of it is stored. */
  async inMemory(pinned: PinnedNode): Promise<void> {
    if (!(pinned instanceof Dir)) {
      if (pinned.last !== undefined) fileReferences(pinned.last, this)
      return this.#readNodes()
    }
    const directories: Dir[] = [pinned]
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
    await rest({ signal: this.#signal, slice: this.#slice })
  }

  /**
   * Whether all of it is known from its address: it is read from the store then. Where the address was given just
   * now and its node is on the way, what is in memory says what it leads to.
   */
  async #isStored(node: Dir | Page, kind: StoredKind): Promise<boolean> {
    const { address } = node
    if (address !== undefined) {
      if (this.#visited.has(address)) return true
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
    // Depth first, so that few wait.
    const { syncReads } = this.#core.store.capabilities
    while (this.#unread.length > 0) {
      const some = this.#unread.splice(syncReads ? -1 : -readsAtOnce)
      const reads = some.map(async ([address]) => this.#read(address))
      const texts = await Promise.all(reads)
      for (const [index, [address, kind]] of some.entries()) this.#take(address, kind, texts[index])
      await this.rest()
    }
  }

  #take(address: string, kind: StoredKind, json: string | undefined): void {
    if (json === undefined) throw missingNode(address)
    storedReferences(kind, { address, json }, this)
  }

  #read(address: string): string | undefined | Promise<string | undefined> {
    return getSyncOrAsync(this.#core.store, keys.node(address))
  }
}

function powerOfTwo(atMost: number): number {
  return 2 ** Math.floor(Math.log2(atMost))
}

function random(core: Core): Uint32Array {
  const words = new Uint32Array(1)
  core.environment.randomFill(new Uint8Array(words.buffer))
  return words
}
