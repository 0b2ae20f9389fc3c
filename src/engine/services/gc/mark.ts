import { itemAt } from '../../base/present.js'
import { DigestCache } from '../../base/digest-cache.js'
import { DigestSet } from '../../base/digest-set.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { Body } from '../../cas/body.js'
import type { Core } from '../../session/core.js'
import { contentsOf, type Redo } from '../../records/event.js'
import { keys } from '../../storage/keys.js'
import { getSyncOrAsync } from '../../storage/sync-or-async.js'
import { missingNode } from '../../tree/encoded.js'
import type { Dir, Page } from '../../tree/node.js'
import { treeReferences } from '../../tree/memory-references.js'
import type { PinnedNode } from '../../tree/pins.js'
import {
  bodyReferences,
  encodedReferences,
  storedReferences,
  type References,
  type StoredKind,
} from '../../tree/references.js'
import type { AnyRecordKind } from '../../records/index.js'
import { rest } from './run.js'

/** Bytes of memory for each visited node. */
const bytesPerVisit = 20

/**
 * Marks the tree nodes and blobs that are reachable from roots, by address and hash. It loads nothing into the trees in
 * memory. The budget bounds its own memory. In a very large store it therefore also marks a little garbage, which the
 * next collection finds, and may read shared nodes more than once.
 */
export class Marker implements References {
  readonly #core: Core
  readonly #signal: AbortSignal
  readonly #slice: TimeSlice
  readonly #marks: DigestSet
  /** Nodes whose references are marked, or in `#unread`. */
  readonly #visited: DigestCache
  readonly #unread: [address: string, kind: StoredKind][] = []
  /** Visited directories and pages in memory that are not stored. */
  readonly #seen = new Set<Dir | Page>()

  /** `memoryBytes` is the approximate memory for marks. */
  constructor(core: Core, signal: AbortSignal, memoryBytes: number) {
    this.#core = core
    this.#signal = signal
    const filterBytes = filterBytesFor(memoryBytes)
    this.#marks = new DigestSet({ filterBytes, salt: itemAt(random(core), 0) })
    this.#visited = new DigestCache(powerOfTwo(filterBytes / bytesPerVisit))
    this.#slice = new TimeSlice(core.environment)
  }

  /** The approximate number of marked nodes and blobs. */
  get size(): number {
    return this.#marks.size
  }

  /** Takes a node's address or a blob's hash. The first 24 digits are enough. */
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

  /**
   * Marks everything that a record refers to.
   *
   * @throws {EngineError} DATA_LOSS when the record is damaged or a node is missing
   */
  async record(kind: AnyRecordKind | undefined, key: string, json: string): Promise<void> {
    kind?.readReferences(json, key, {
      root: (root) => encodedReferences(root, this),
      blob: (hash) => this.blob(hash),
      // Marks cover nodes and blobs only. Records are deleted by other rules.
      record: () => undefined,
    })
    await this.#readNodes()
  }

  body(body: Body): void {
    bodyReferences(body, this)
  }

  /** Marks the blobs that a replay of the effects needs. */
  redo(effects: readonly Redo[]): void {
    for (const [hash] of contentsOf(effects)) this.blob(hash)
  }

  /** Marks everything reachable from a tree or file in memory, both its loaded and its stored nodes. */
  async inMemory(pinned: PinnedNode): Promise<void> {
    const visitor = {
      node: (address: string, kind: StoredKind): void => this.node(address, kind),
      blob: (hash: string): void => this.blob(hash),
      isStored: async (address: string) =>
        this.#visited.has(address) || (await this.#read(address)) !== undefined,
      rest: () => this.rest(),
    }
    await treeReferences(pinned, visitor, this.#seen)
    await this.#readNodes()
  }

  /** Marks a node and everything below it, if it is stored. An engine may have published it for a commit that failed. */
  async ifStored(address: string, kind: StoredKind): Promise<void> {
    if (this.#visited.has(address) || (await this.#read(address)) === undefined) return
    this.node(address, kind)
    await this.#readNodes()
  }

  /** Yields to other work when the time slice is over. Throws if the signal is aborted. */
  async rest(): Promise<void> {
    await rest({ signal: this.#signal, slice: this.#slice })
  }

  async #readNodes(): Promise<void> {
    // Depth first, so that the list of unread nodes stays short.
    const { syncReads } = this.#core.store.capabilities
    while (this.#unread.length > 0) {
      const some = this.#unread.splice(syncReads ? -1 : -limits.markReadsAtOnce)
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

/** The bytes of the filter of a {@link DigestSet} that uses half of some memory. */
export function filterBytesFor(memoryBytes: number): number {
  const bytes = Math.min(Math.max(memoryBytes, limits.markMinBytes), limits.markMaxBytes)
  return powerOfTwo(bytes / 2)
}

function powerOfTwo(atMost: number): number {
  return 2 ** Math.floor(Math.log2(atMost))
}

function random(core: Core): Uint32Array {
  const words = new Uint32Array(1)
  core.environment.randomFill(new Uint8Array(words.buffer))
  return words
}
