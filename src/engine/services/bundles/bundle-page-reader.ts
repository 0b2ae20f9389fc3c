import { itemAt, onlyItem, present } from '../../base/present.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { compareUtf8, needsUtf8Order } from '../../base/order.js'
import { checkName } from '../../base/path.js'
import { runInSlices, type TimeSlice } from '../../base/cooperative.js'
import { BlockBody, UnloadedBody } from '../../cas/body.js'
import type { Core } from '../../session/core.js'
import { hashTree } from '../../tree/hash.js'
import { isLinked } from '../../tree/links.js'
import { Dir, FileNode, LinkedFile, noAttributes, Page, type Entry } from '../../tree/node.js'
import { endsPage } from '../../tree/page.js'
import { asList, asText, checked, damaged } from './bundle-checks.js'
import type { EntryReader } from './bundle-entry-reader.js'
import type { NodeFacts, NodeVault } from './bundle-nodes.js'

/**
 * Reads the directories of a bundle. Checks the order of their names, rebuilds their pages and computes their
 * hashes.
 */
export class PageReader {
  readonly #core: Core
  readonly #vault: NodeVault
  readonly #entries: EntryReader
  readonly #slice: TimeSlice

  constructor(core: Core, vault: NodeVault, entries: EntryReader, slice: TimeSlice) {
    this.#core = core
    this.#vault = vault
    this.#entries = entries
    this.#slice = slice
  }

  /** Takes a block of a bundle that is a whole directory, or a part of one. */
  async takePage(address: string, list: readonly unknown[], isWhole: boolean): Promise<void> {
    if (list.length > limits.namesPerPage || (list.length === 0 && !isWhole))
      throw damaged('a directory is split into the wrong pages')
    const names: string[] = []
    const nodes: Entry[] = []
    let previous: string | undefined
    for (const entry of list) {
      if (this.#slice.over) await this.#slice.next()
      const [given, node] = asList(entry)
      const name = asName(given)
      if (previous !== undefined) {
        if (compareUtf8(previous, name) >= 0) throw damaged('names are not in order')
        if (endsPage(previous)) throw damaged('a directory is split into the wrong pages')
      }
      previous = name
      names.push(name)
      nodes.push(await this.#entries.entry(asList(node)))
    }
    const page = new Page(undefined, names, nodes, names.at(-1) ?? '')
    const facts = factsOf(page, isWhole ? 'directory' : 'part')
    await this.#hashPage(page, facts)
    if (isWhole) this.#vault.keepDirectory(address, directoryOf([page]), facts)
    else this.#vault.keepPart(address, page, facts)
  }

  /**
   * Takes a directory of several parts. A part may end anywhere within a page, so the parts of a page are
   * joined.
   */
  async takeParts(address: string, parts: readonly string[]): Promise<void> {
    let pages: Page[] = []
    const all: NodeFacts[] = []
    let whole: Page | undefined
    let open: Page[] = []
    let count = 0
    let last: string | undefined
    const close = async (): Promise<void> => {
      const page = onlyItem(open) ?? joined(open)
      if (open.length > 1) await this.#hashPage(page, factsOf(page, 'part'))
      whole = pages.length === 0 ? page : undefined
      pages.push(this.#vault.keepPage(page))
      open = []
      count = 0
    }
    for (const part of parts) {
      if (this.#slice.over) await this.#slice.next()
      const facts = this.#vault.facts(part)
      if (facts?.kind !== 'part') throw damaged('a part of a directory is missing')
      const page = await this.#vault.part(part)
      const names = present(page.names, 'a loaded page')
      if (last !== undefined && compareUtf8(last, itemAt(names, 0)) >= 0)
        throw damaged('names are not in order')
      last = page.last
      all.push(facts)
      open.push(page)
      count += names.length
      if (count > limits.namesPerPage) throw damaged('a directory is split into the wrong pages')
      if (count === limits.namesPerPage || endsPage(page.last)) await close()
      await this.#vault.backpressure()
    }
    if (open.length > 0) await close()
    const facts: NodeFacts = {
      kind: 'directory',
      height: all.reduce((height, one) => Math.max(height, one.height), 0),
      linked: all.some(({ linked }) => linked),
      wide: all.some(({ wide }) => wide),
      table: all.some(({ table }) => table),
    }
    if (whole !== undefined) pages = [whole]
    const dir = directoryOf(pages)
    dir.wide = facts.wide
    this.#vault.keepDirectory(address, dir, facts)
  }

  /** Computes the hash of a page. If the page has links, computes the hashes of everything else in it. */
  async #hashPage(page: Page, { linked, table }: NodeFacts): Promise<void> {
    const { contentIds, loader } = this.#core
    if (page.nodes.some(mustBeRead)) await this.#vault.flush()
    if (!linked && !table) {
      await runInSlices(hashTree(directoryOf([page]), contentIds, loader), this.#core.environment)
      return
    }
    for (const node of page.nodes) {
      if (this.#slice.over) await this.#slice.next()
      if (node instanceof FileNode) await whenLoaded(() => contentIds.contentId(node))
      else if (node instanceof Dir && !node.linked) {
        await runInSlices(hashTree(node, contentIds, loader), this.#core.environment)
      }
    }
  }
}

function asName(value: unknown): string {
  const name = asText(value, limits.nameBytes)
  checked(() => checkName(name))
  if (name.includes('/')) throw damaged('a name contains a slash')
  return name
}

function factsOf({ names, nodes }: Page, kind: NodeFacts['kind']): NodeFacts {
  let height = 0
  for (const node of nodes) height = Math.max(height, 1 + (node instanceof Dir ? node.height : 0))
  return {
    kind,
    height,
    linked: nodes.some(isLinked),
    wide: present(names, 'a loaded page').some(needsUtf8Order),
    table: nodes.some((node) => node instanceof LinkedFile),
  }
}

/** Whether the hash of a page needs stored nodes in addition to the page itself. */
function mustBeRead(node: Entry): boolean {
  if (node instanceof Dir) return node.pages === null
  return node instanceof FileNode && (node.body instanceof BlockBody || node.body instanceof UnloadedBody)
}

function directoryOf(pages: Page[]): Dir {
  return new Dir(undefined, noAttributes, pages)
}

function joined(parts: readonly Page[]): Page {
  const names = parts.flatMap((part) => present(part.names, 'a loaded page'))
  return new Page(
    undefined,
    names,
    parts.flatMap((part) => part.nodes),
    itemAt(names, -1),
  )
}
