import { sha256 } from '../base/hash.js'
import { loaded, type Steps } from '../base/slices.js'
import type { ContentIds } from './content-id.js'
import { isLinked, resolveEntry } from './links.js'
import { Dir, FileNode, Link, type Entry, type NodeLoader, type Page } from './node.js'
import { hashXattrs } from './xattrs.js'

/** A file from this size on is a step of its own. */
const ownStepBytes = 16 * 1024

/**
 * The canonical hash of a frozen root: over mode, extended attributes and pages of each directory, a page over
 * kind, mode, attributes, content and name of its entries. Content only: no times, no inode numbers, no layout
 * of extents, and a file of several names is like as many files. The same tree has the same hash whatever its
 * history. Memoised per page and directory, so it costs what changed.
 */
export function hashTree(root: Dir, ids: ContentIds, loader: NodeLoader): Steps<string> {
  return new TreeHash(root, ids, loader).run()
}

/** What a directory with links in it hashes to, with the table of links for which that holds. */
const linkedHashes = new WeakMap<Dir, { readonly links: Dir | undefined; readonly hash: string }>()

class TreeHash {
  readonly #root: Dir
  readonly #ids: ContentIds
  readonly #loader: NodeLoader
  /** Of this run: the memo of a directory may meanwhile come to hold for another tree. */
  readonly #linked = new Map<Dir, string>()

  constructor(root: Dir, ids: ContentIds, loader: NodeLoader) {
    this.#root = root
    this.#ids = ids
    this.#loader = loader
  }

  *run(): Steps<string> {
    const stack: Dir[] = this.#known(this.#root) === undefined ? [this.#root] : []
    while (stack.length > 0) {
      const dir = stack.at(-1)!
      const pages = yield* loaded(() => dir.pages ?? this.#loader.loadDir(dir))
      const unhashed: Dir[] = []
      for (const page of pages) {
        if (page.hash !== undefined) continue
        if (page.names === null) yield* loaded(() => page.names ?? this.#loader.loadPage(page))
        for (const entry of page.nodes) {
          if (entry instanceof Dir && this.#known(entry) === undefined) unhashed.push(entry)
          else {
            const node =
              entry instanceof Link
                ? yield* loaded(() => resolveEntry(entry, this.#root, this.#loader))
                : entry
            if (!(node instanceof FileNode) || node.size < ownStepBytes) continue
            yield* loaded(() => this.#ids.contentId(node))
            yield undefined
          }
        }
      }
      if (unhashed.length > 0) {
        for (const child of unhashed) stack.push(child)
        continue
      }
      yield* this.#hashDir(dir, pages)
      stack.pop()
      yield undefined
    }
    return this.#known(this.#root)!
  }

  *#hashDir(dir: Dir, pages: readonly Page[]): Steps<void> {
    const mode = dir.mode.toString(8)
    let lines = dir.xattrs === undefined ? `dir ${mode}` : `dir+ ${mode} ${hashXattrs(dir.xattrs)}`
    for (const page of pages) {
      lines += `\n${page.hash ?? (yield* loaded(() => this.#hashPage(page)))}`
      yield undefined
    }
    const hash = sha256(lines)
    if (!dir.linked) dir.hash = hash
    else {
      linkedHashes.set(dir, { links: this.#root.links, hash })
      this.#linked.set(dir, hash)
    }
  }

  #known(dir: Dir): string | undefined {
    if (!dir.linked) return dir.hash
    const known = this.#linked.get(dir)
    if (known !== undefined) return known
    const memo = linkedHashes.get(dir)
    if (memo === undefined || memo.links !== this.#root.links) return undefined
    this.#linked.set(dir, memo.hash)
    return memo.hash
  }

  /** What a page without links hashes to holds in every tree. */
  #hashPage(page: Page): string {
    let lines = ''
    for (const [index, name] of page.names!.entries())
      lines += `${this.#describe(page.nodes[index]!)} ${name}\0`
    const hash = sha256(lines)
    if (!page.nodes.some(isLinked)) page.hash = hash
    return hash
  }

  #describe(entry: Entry): string {
    const node = resolveEntry(entry, this.#root, this.#loader)
    if (node instanceof Dir) return `dir ${this.#known(node)}`
    if (!(node instanceof FileNode)) return `link ${sha256(node.target)}`
    const facts = `${node.mode.toString(8)} ${this.#ids.contentId(node)}`
    return node.xattrs === undefined ? `file ${facts}` : `file+ ${facts} ${hashXattrs(node.xattrs)}`
  }
}
