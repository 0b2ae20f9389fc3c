import { present } from '../base/present.js'
import { compareUtf8 } from '../base/order.js'
import { loaded } from '../base/cooperative.js'
import { isSameNode } from '../cas/body.js'
import type { ContentIds } from './content-id.js'
import { isLinked, resolveEntry } from './links.js'
import { Dir, FileNode, Link, Symlink, type Entry, type Node, type Page } from './node.js'
import type { NodeLoader } from './node-loader.js'
import { sameXattrs } from './xattrs.js'

/** A path that differs. It was added or removed, or its content or attributes changed. */
export interface TreeChange {
  readonly path: string
  readonly before: Node | undefined
  readonly after: Node | undefined
}

/**
 * A step of a diff: a change, a promise that the caller must await, or undefined, where the caller may pause.
 */
export type DiffStep = TreeChange | Promise<void> | undefined

/**
 * Finds the paths that differ between two frozen trees, in manifest order. It skips subtrees that are known
 * to be equal without reading them, so the cost is that of the changes. It does not compare times. If the
 * kind of a path changed, the path is reported as removed, then as added.
 */
export class TreeDiff {
  readonly #ids: ContentIds
  readonly #loader: NodeLoader

  constructor(ids: ContentIds, loader: NodeLoader) {
    this.#ids = ids
    this.#loader = loader
  }

  *compare(before: Dir, after: Dir): Generator<DiffStep, void, void> {
    const sides = new Sides(before, after)
    if (!sameAttributes(before, after)) yield { path: '/', before, after }
    if (!sides.sameDir(before, after)) yield* this.#compareDirs(sides, { before, after, path: '' })
  }

  *#compareDirs(
    sides: Sides,
    { before, after, path }: { before: Dir; after: Dir; path: string },
  ): Generator<DiffStep, void, void> {
    const left = new EntryCursor(yield* loaded(() => before.pages ?? this.#loader.loadDir(before)))
    const right = new EntryCursor(yield* loaded(() => after.pages ?? this.#loader.loadDir(after)))
    const wide = before.wide || after.wide
    yield undefined
    for (;;) {
      skipEqual(sides, left, right)
      // One step, because it keeps one side loaded while the other one is loaded.
      yield* loaded(() => {
        left.settle(this.#loader)
        right.settle(this.#loader)
      })
      if (left.atEqualPages(right, sides) || left.atEqualEntries(right, sides)) continue
      const order = compareNames(left.name, right.name, wide)
      if (order === undefined) return
      if (order < 0) {
        yield* this.#whole(`${path}/${left.name}`, left.entry, sides.before)
        left.next()
      } else if (order > 0) {
        yield* this.#whole(`${path}/${right.name}`, right.entry, sides.after)
        right.next()
      } else {
        yield* this.#compareEntries(sides, {
          path: `${path}/${left.name}`,
          left: left.entry,
          right: right.entry,
        })
        left.next()
        right.next()
      }
    }
  }

  *#compareEntries(
    sides: Sides,
    { path, left, right }: { path: string; left: Entry; right: Entry },
  ): Generator<DiffStep, void, void> {
    const before = yield* loaded(() => resolveEntry(left, sides.before.root, this.#loader))
    const after = yield* loaded(() => resolveEntry(right, sides.after.root, this.#loader))
    if (before instanceof Dir && after instanceof Dir) {
      if (!sameAttributes(before, after)) yield { path, before, after }
      if (!sides.sameDir(before, after)) yield* this.#compareDirs(sides, { before, after, path })
    } else if (before instanceof FileNode && after instanceof FileNode) {
      if (before === after) return
      if (!sameAttributes(before, after) || !(yield* loaded(() => this.#sameContent(before, after))))
        yield { path, before, after }
    } else if (before instanceof Symlink && after instanceof Symlink) {
      if (before.target !== after.target) yield { path, before, after }
    } else {
      yield* this.#whole(path, left, sides.before)
      yield* this.#whole(path, right, sides.after)
    }
  }

  /** Reports a node that only one side has, and everything below it. */
  *#whole(path: string, entry: Entry, side: Side): Generator<DiffStep, void, void> {
    const node = yield* loaded(() => resolveEntry(entry, side.root, this.#loader))
    yield side.name === 'before'
      ? { path, before: node, after: undefined }
      : { path, before: undefined, after: node }
    if (!(node instanceof Dir)) return
    const cursor = new EntryCursor(yield* loaded(() => node.pages ?? this.#loader.loadDir(node)))
    for (;;) {
      yield* loaded(() => cursor.settle(this.#loader))
      if (cursor.name === undefined) return
      yield* this.#whole(`${path}/${cursor.name}`, cursor.entry, side)
      cursor.next()
    }
  }

  #sameContent(a: FileNode, b: FileNode): boolean {
    if (a.size !== b.size) return false
    return isSameNode(a.body, b.body) || this.#ids.contentId(a) === this.#ids.contentId(b)
  }
}

interface Side {
  readonly name: 'before' | 'after'
  readonly root: Dir
}

/** The two trees, and whether each link has the same meaning in both. */
class Sides {
  readonly before: Side
  readonly after: Side
  readonly sameLinks: boolean

  constructor(before: Dir, after: Dir) {
    this.before = { name: 'before', root: before }
    this.after = { name: 'after', root: after }
    const [a, b] = [before.links, after.links]
    this.sameLinks = a === b || (a !== undefined && b !== undefined && sameStored(a, b))
  }

  /** Whether both directories are known to have equal content. Ignores their own attributes. */
  sameDir(a: Dir, b: Dir): boolean {
    return (a === b || sameStored(a, b)) && (this.sameLinks || !(a.linked || b.linked))
  }

  sameEntry(a: Entry, b: Entry): boolean {
    return a === b && (this.sameLinks || !isLinked(a))
  }

  samePage(a: Page, b: Page): boolean {
    if (a.hash !== undefined && a.hash === b.hash) return true
    if (a !== b && (a.address === undefined || a.address !== b.address)) return false
    return this.sameLinks || (a.names !== null && !a.nodes.some(isLinked))
  }
}

/** Skips loaded pages and entries that are known to be equal, without a step for each entry. */
function skipEqual(sides: Sides, left: EntryCursor, right: EntryCursor): void {
  for (;;) {
    if (left.atEqualPages(right, sides)) {
      left.nextPage()
      right.nextPage()
    } else if (left.atEqualEntries(right, sides)) {
      left.next()
      right.next()
    } else if (left.atPageEnd) left.nextPage()
    else if (right.atPageEnd) right.nextPage()
    else return
  }
}

/** A position in the entries of a directory. A settled cursor is on an entry or at the end. */
class EntryCursor {
  readonly #pages: readonly Page[]
  #pageIndex = 0
  #entry = 0

  constructor(pages: readonly Page[]) {
    this.#pages = pages
  }

  get name(): string | undefined {
    return this.#pages[this.#pageIndex]?.names?.[this.#entry]
  }

  get entry(): Entry {
    return present(this.#pages[this.#pageIndex]?.nodes[this.#entry], 'the entry of a cursor')
  }

  /** Whether the cursor is after the last entry of a loaded page. */
  get atPageEnd(): boolean {
    const names = this.#pages[this.#pageIndex]?.names
    return names !== undefined && names !== null && this.#entry >= names.length
  }

  atEqualPages(other: EntryCursor, sides: Sides): boolean {
    if (this.#entry !== 0 || other.#entry !== 0) return false
    const page = this.#pages[this.#pageIndex]
    const otherPage = other.#pages[other.#pageIndex]
    return page !== undefined && otherPage !== undefined && sides.samePage(page, otherPage)
  }

  atEqualEntries(other: EntryCursor, sides: Sides): boolean {
    const page = this.#pages[this.#pageIndex]
    const otherPage = other.#pages[other.#pageIndex]
    if (page === undefined || otherPage === undefined || page.names === null || otherPage.names === null)
      return false
    const entry = page.nodes[this.#entry]
    const otherEntry = otherPage.nodes[other.#entry]
    return (
      entry !== undefined &&
      otherEntry !== undefined &&
      (entry instanceof Link
        ? otherEntry instanceof Link && entry.ino === otherEntry.ino && sides.sameLinks
        : sides.sameEntry(entry, otherEntry)) &&
      page.names[this.#entry] === otherPage.names[other.#entry]
    )
  }

  next(): void {
    this.#entry++
  }

  nextPage(): void {
    this.#pageIndex++
    this.#entry = 0
  }

  settle(loader: NodeLoader): void {
    for (let page = this.#pages[this.#pageIndex]; page !== undefined; page = this.#pages[this.#pageIndex]) {
      const names = page.names ?? loader.loadPage(page)
      if (this.#entry < names.length) return
      this.nextPage()
    }
  }
}

function compareNames(a: string | undefined, b: string | undefined, wide: boolean): number | undefined {
  if (a === undefined) return b === undefined ? undefined : 1
  if (b === undefined) return -1
  if (a === b) return 0
  if (wide) return compareUtf8(a, b)
  return a < b ? -1 : 1
}

function sameStored(a: Dir, b: Dir): boolean {
  return (a.address !== undefined && a.address === b.address) || (a.hash !== undefined && a.hash === b.hash)
}

function sameAttributes(a: FileNode | Dir, b: FileNode | Dir): boolean {
  return a.mode === b.mode && sameXattrs(a.xattrs, b.xattrs)
}
