import { compareUtf8, needsUtf8Order } from '../base/order.js'
import { limits } from '../base/limits.js'
import { Page, type Dir, type Entry, type Owner } from './node.js'
import type { NodeLoader } from './node-loader.js'

/**
 * Whether a name ends its page. The ends of pages depend only on the names, so equal directories have equal
 * pages, whatever their history. A name ends its page if its hash ends in seven zero bits. A run of names
 * without such a name is cut after every 1,024 names, counted from the start of the run.
 */
export function endsPage(name: string): boolean {
  let hash = 0x811c9dc5
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return ((hash ^ (hash >>> 12)) & 127) === 0
}

/** The index of the first name that is not below `name`. */
export function lowerBound(names: readonly string[], name: string, wide: boolean): number {
  let low = 0
  let high = names.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (wide ? compareUtf8(names[middle]!, name) < 0 : names[middle]! < name) low = middle + 1
    else high = middle
  }
  return low
}

/** The index of the page that has `name`, or would have it. */
export function pageIndex(pages: readonly Page[], name: string, wide: boolean): number {
  let low = 0
  let high = pages.length - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if (wide ? compareUtf8(pages[middle]!.last, name) < 0 : pages[middle]!.last < name) low = middle + 1
    else high = middle
  }
  return low
}

export function findName(dir: Dir, name: string, loader: NodeLoader): Entry | undefined {
  const pages = dir.pages ?? loader.loadDir(dir)
  const page = pages.length === 1 ? pages[0]! : pages[pageIndex(pages, name, dir.wide)]!
  const names = page.names ?? loader.loadPage(page)
  const index = lowerBound(names, name, dir.wide)
  return names[index] === name ? page.nodes[index] : undefined
}

/** Sets a node under a name, and returns whether the name is new. `owner` must own the directory. */
export function setName(dir: Dir, name: string, node: Entry, owner: Owner, loader: NodeLoader): boolean {
  if (!dir.wide && needsUtf8Order(name)) dir.wide = true
  const pages = dir.pages!
  const i = pages.length === 1 ? 0 : pageIndex(pages, name, dir.wide)
  const names = pages[i]!.names ?? loader.loadPage(pages[i]!)
  const at = lowerBound(names, name, dir.wide)
  if (names[at] === name) {
    writablePage(pages, i, owner).nodes[at] = node
    return false
  }
  if (at === names.length && names.length > 0 && isClosed(pages[i]!)) {
    // Only the last page can get a name above its last one. An only page is stored inside the node of its directory. With a
    // second page, it gets a node and an address of its own. An earlier state must not share them, because no record of it
    // refers to that node, and a collection deletes it. So the page is copied.
    if (pages.length === 1) writablePage(pages, 0, owner)
    pages.push(new Page(owner, [name], [node], name))
    return true
  }
  if (names.length >= limits.namesPerPage || endsPage(name)) loadRun(pages, i, loader)
  const page = writablePage(pages, i, owner)
  page.names!.splice(at, 0, name)
  page.nodes.splice(at, 0, node)
  page.last = page.names!.at(-1)!
  if (at < page.names!.length - 1 && endsPage(name)) repage(pages, i, owner, loader)
  else if (page.names!.length > limits.namesPerPage) pushOn(pages, i, owner, loader)
  return true
}

/** Removes an existing name. `owner` must own the directory. */
export function removeName(dir: Dir, name: string, owner: Owner, loader: NodeLoader): void {
  const pages = dir.pages!
  const i = pageIndex(pages, name, dir.wide)
  const names = pages[i]!.names ?? loader.loadPage(pages[i]!)
  const wasFull = names.length === limits.namesPerPage
  const hadEnd = endsPage(pages[i]!.last)
  if (hadEnd ? names.at(-1) === name : wasFull) loadRun(pages, i + 1, loader)
  // The remaining page may become the only one, and the only page of a directory must always be loaded.
  if (pages.length === 2 && pages[1 - i]!.names === null) loader.loadPage(pages[1 - i]!)
  const page = writablePage(pages, i, owner, loader)
  const at = lowerBound(page.names!, name, dir.wide)
  page.names!.splice(at, 1)
  page.nodes.splice(at, 1)
  page.last = page.names!.at(-1) ?? ''
  if (i + 1 < pages.length) {
    if (hadEnd && (page.names!.length === 0 || !endsPage(page.last))) return repage(pages, i, owner, loader)
    if (!hadEnd && wasFull) return pullUp(pages, i, owner, loader)
  }
  if (page.names!.length === 0 && pages.length > 1) {
    pages.splice(i, 1)
    // The only page of a directory is stored with the directory, and must not have an address of its own.
    if (pages.length === 1) writablePage(pages, 0, owner)
  }
}

/**
 * Loads the pages from `first` to the end of their run, so that no failed load can leave a change half done.
 */
function loadRun(pages: readonly Page[], first: number, loader: NodeLoader): void {
  for (let i = first; i < pages.length; i++) {
    const page = pages[i]!
    if (page.names === null) loader.loadPage(page)
    if (endsPage(page.last)) return
  }
}

export function emptyPages(owner: Owner): Page[] {
  return [new Page(owner, [], [], '')]
}

/** The rough memory of a page, and of each of its names, without the nodes. */
const pageBytes = 200
const entryBytes = 16

function isClosed(page: Page, loader?: NodeLoader): boolean {
  const names = page.names ?? loader!.loadPage(page)
  return names.length >= limits.namesPerPage || endsPage(page.last)
}

function writablePage(pages: Page[], index: number, owner: Owner, loader?: NodeLoader): Page {
  const page = pages[index]!
  if (page.owner === owner) return page
  const names = page.names ?? loader!.loadPage(page)
  const copy = new Page(owner, names.slice(), page.nodes.slice(), page.last)
  pages[index] = copy
  owner.bytes += pageBytes + names.length * entryBytes
  return copy
}

/** One page of a run has one name too many. Each page of the run passes its last name to the next page. */
function pushOn(pages: Page[], first: number, owner: Owner, loader: NodeLoader): void {
  for (let i = first; ; i++) {
    const page = pages[i]!
    const endsRun = i === pages.length - 1 || endsPage(page.last)
    const name = page.names!.pop()!
    const node = page.nodes.pop()!
    page.last = page.names!.at(-1)!
    if (endsRun) {
      pages.splice(i + 1, 0, new Page(owner, [name], [node], name))
      return
    }
    const next = writablePage(pages, i + 1, owner, loader)
    next.names!.unshift(name)
    next.nodes.unshift(node)
    if (next.names!.length <= limits.namesPerPage) return
  }
}

/** A full page of a run lost a name. Each page of the run takes the first name of the next page. */
function pullUp(pages: Page[], first: number, owner: Owner, loader: NodeLoader): void {
  for (let i = first; i + 1 < pages.length; i++) {
    const page = pages[i]!
    const next = writablePage(pages, i + 1, owner, loader)
    const wasFull = next.names!.length === limits.namesPerPage && !endsPage(next.last)
    page.last = next.names!.shift()!
    page.names!.push(page.last)
    page.nodes.push(next.nodes.shift()!)
    if (next.names!.length === 0) pages.splice(i + 1, 1)
    if (!wasFull) return
  }
}

/** Divides the names from page `first` to the end of its run into pages again. */
function repage(pages: Page[], first: number, owner: Owner, loader: NodeLoader): void {
  const names: string[] = []
  const nodes: Entry[] = []
  let end = first
  while (end < pages.length) {
    const page = pages[end++]!
    for (const name of page.names ?? loader.loadPage(page)) names.push(name)
    for (const node of page.nodes) nodes.push(node)
    if (page.names!.length > 0 && endsPage(page.last)) break
  }
  const cut: Page[] = []
  for (let start = 0, i = 0; i < names.length; i++) {
    if (i + 1 < names.length && i + 1 - start < limits.namesPerPage && !endsPage(names[i]!)) continue
    cut.push(new Page(owner, names.slice(start, i + 1), nodes.slice(start, i + 1), names[i]!))
    start = i + 1
  }
  if (cut.length === 0) cut.push(...emptyPages(owner))
  pages.splice(first, end - first, ...cut)
}
