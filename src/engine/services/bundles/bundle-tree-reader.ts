import { runInSlices, TimeSlice } from '../../base/cooperative.js'
import type { Core } from '../../session/core.js'
import { manifestHash } from '../../session/reads/manifest.js'
import { hashTree } from '../../tree/hash.js'
import { noAttributes, type Dir } from '../../tree/node.js'
import { BodyReader } from './bundle-body-reader.js'
import { asAddress, asList, asObject, damaged, parseJson } from './bundle-checks.js'
import { EntryReader } from './bundle-entry-reader.js'
import { treeKinds, type BundleState } from './bundle-format.js'
import { LinkCheck } from './bundle-link-check.js'
import { nodeVault, type NodeVault } from './bundle-nodes.js'
import { PageReader } from './bundle-page-reader.js'
import type { BundleBlock } from './bundle-ports.js'

const addressDigits = 40

/**
 * Reads the trees of a bundle. A block may refer only to earlier blocks, so there are no cycles and no
 * missing blocks. Derived values (hashes, heights, pages, order) are computed, and never taken from the
 * bundle.
 */
export class TreeReader {
  readonly #core: Core
  readonly #vault: NodeVault
  readonly #slice: TimeSlice
  readonly #bodies: BodyReader
  readonly #entries: EntryReader
  readonly #pages: PageReader
  readonly #links: LinkCheck

  constructor(core: Core) {
    this.#core = core
    this.#vault = nodeVault(core)
    this.#slice = new TimeSlice(core.environment)
    this.#bodies = new BodyReader(this.#vault, this.#slice)
    this.#entries = new EntryReader(this.#vault, this.#bodies, core.maxFileBytes)
    this.#pages = new PageReader(core, this.#vault, this.#entries, this.#slice)
    this.#links = new LinkCheck(core.loader, this.#slice)
  }

  async take({ kind, hash, bytes }: BundleBlock): Promise<void> {
    if (kind === 'raw') this.#vault.addBlob(hash, bytes)
    else {
      const address = hash.slice(0, addressDigits)
      if (this.#vault.facts(address) !== undefined) return
      const [tag, list] = asList(parseJson(bytes))
      await this.#node(address, tag, asList(list))
    }
    await this.#vault.backpressure()
    if (this.#slice.over) await this.#slice.next()
  }

  /** Resolves when all nodes read so far are stored. */
  flush(): Promise<void> {
    return this.#vault.flush()
  }

  /** Reads a state and checks it completely. The resulting tree is frozen. */
  async state({ root: encoded, manifestHash: expected }: BundleState): Promise<Dir> {
    const value = asList(encoded)
    if (value[0] !== 'd') throw damaged('a tree has no root')
    const root = this.#entries.directory(value)
    const { t: table } = asObject(value[7] ?? {})
    if (table !== undefined) {
      const address = asAddress(table)
      if (this.#vault.facts(address)?.kind !== 'directory') throw damaged('a table of hard links is missing')
      root.links = this.#vault.directory(address, noAttributes)
      root.links.linked = false
    }
    await this.flush()
    const hash = root.linked ? undefined : await this.#hash(root)
    const frozen = this.#vault.unloaded(root)
    if (root.linked || root.links !== undefined) await this.#links.check(frozen)
    if ((hash ?? (await manifestHash(this.#core, frozen))) !== expected)
      throw damaged('a tree does not match its manifest hash')
    return frozen
  }

  async #node(address: string, kind: unknown, list: readonly unknown[]): Promise<void> {
    switch (kind) {
      case treeKinds.directory:
      case treeKinds.part:
        return this.#pages.takePage(address, list, kind === treeKinds.directory)
      case treeKinds.blocks:
        return this.#bodies.takeBlocks(address, list)
      case treeKinds.list: {
        const parts = list.map(asAddress)
        const [first] = parts
        const isPage = first !== undefined && this.#vault.facts(first)?.kind === 'part'
        return isPage ? this.#pages.takeParts(address, parts) : this.#bodies.takeLists(address, parts)
      }
    }
    throw damaged('a block has an unknown kind')
  }

  #hash(dir: Dir): Promise<string> {
    const { contentIds, loader, environment } = this.#core
    return runInSlices(hashTree(dir, contentIds, loader), environment)
  }
}
