import { limits } from '../base/limits.js'
import { itemAt, present } from '../base/present.js'
import { sha256 } from '../base/hash.js'
import { loaded, type Steps } from '../base/cooperative.js'
import type { ContentIds } from './content-id.js'
import { isLinked, resolveEntry } from './links.js'
import { Dir, FileNode, Link, type Entry, type Node, type Page } from './node.js'
import type { NodeLoader } from './node-loader.js'
import { hashXattrs } from './xattrs.js'

/**
 * The canonical hash of a frozen root. The hash of a directory covers its mode, its extended attributes and
 * its pages. The hash of a page covers the kind, mode, extended attributes, content and name of each entry.
 * Times, inode numbers and the layout of extents have no effect. A hard-linked file counts once for each of
 * its names. Equal trees have equal hashes, whatever their histories. Hashes are memoised per page and
 * directory, so the cost is that of the changes.
 */
export function hashTree(root: Dir, ids: ContentIds, loader: NodeLoader): Steps<string> {
  return new TreeHash(root, ids, loader).run()
}

/** Hashes of directories that have links in them, each with the table of links that it was computed with. */
const linkedHashes = new WeakMap<Dir, { readonly links: Dir | undefined; readonly hash: string }>()

/** The content of a page. It is held while the page is hashed, because the page itself may be unloaded. */
interface Content {
  readonly names: readonly string[]
  readonly nodes: readonly Entry[]
}

/** A directory that is being hashed. */
interface Frame {
  readonly dir: Dir
  pages: readonly Page[] | undefined
  /** The hashes of the first pages, as far as they are computed. */
  readonly hashes: string[]
}

class TreeHash {
  readonly #root: Dir
  readonly #ids: ContentIds
  readonly #loader: NodeLoader
  /**
   * Hashes of this run, by directory or page and by address. They are needed in addition to the memos: the
   * memo of a directory may meanwhile be that of another tree, and a page that is unloaded and read again is
   * a new object without a memo.
   */
  readonly #hashes = new Map<Dir | Page | string, string>()

  constructor(root: Dir, ids: ContentIds, loader: NodeLoader) {
    this.#root = root
    this.#ids = ids
    this.#loader = loader
  }

  *run(): Steps<string> {
    const stack = [frameOf(this.#root)]
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      if (this.#known(top.dir) !== undefined) {
        stack.pop()
        continue
      }
      const { dir, hashes } = top
      top.pages ??= yield* loaded(() => dir.pages ?? this.#loader.loadDir(dir))
      const page = top.pages[hashes.length]
      if (page === undefined) {
        this.#hashDir(top)
        continue
      }
      const known = page.hash ?? this.#hashes.get(page.address ?? page)
      if (known !== undefined) {
        hashes.push(known)
        continue
      }
      const content = yield* loaded(() => contentOf(page, this.#loader))
      let complete = true
      for (const entry of content.nodes) {
        if (!(entry instanceof Dir) || this.#known(entry) !== undefined) continue
        stack.push(frameOf(entry))
        complete = false
      }
      if (complete) hashes.push(yield* this.#hashPage(page, content))
      yield undefined
    }
    return present(this.#known(this.#root), 'the hash of the root')
  }

  #hashDir({ dir, hashes }: Frame): void {
    const hash = sha256([ownLine(dir), ...hashes].join('\n'))
    if (dir.linked) linkedHashes.set(dir, { links: this.#root.links, hash })
    else dir.hash = hash
    this.#hashes.set(keyOf(dir), hash)
  }

  #known(dir: Dir): string | undefined {
    if (!dir.linked && dir.hash !== undefined) return dir.hash
    const known = this.#hashes.get(keyOf(dir))
    if (known !== undefined) return known
    const memo = dir.linked ? linkedHashes.get(dir) : undefined
    if (memo === undefined || memo.links !== this.#root.links) return undefined
    this.#hashes.set(keyOf(dir), memo.hash)
    return memo.hash
  }

  /**
   * Hashes a page. The hash is memoised in the page only if the page has no links, because it is then the
   * same in every tree.
   */
  *#hashPage(page: Page, { names, nodes }: Content): Steps<string> {
    // The hashes of files are memoised in their nodes, and the table of links may be unloaded meanwhile.
    const targets: Node[] = []
    for (const entry of nodes) {
      const node =
        entry instanceof Link ? yield* loaded(() => resolveEntry(entry, this.#root, this.#loader)) : entry
      targets.push(node)
      if (!(node instanceof FileNode) || node.size < limits.ownStepBytes) continue
      yield* loaded(() => this.#ids.contentId(node))
      yield undefined
    }
    const hash = yield* loaded(() => {
      let lines = ''
      for (const [index, name] of names.entries())
        lines += `${this.#describe(itemAt(targets, index))} ${name}\0`
      return sha256(lines)
    })
    if (nodes.some(isLinked)) this.#hashes.set(page.address ?? page, hash)
    else page.hash = hash
    return hash
  }

  #describe(node: Node): string {
    if (node instanceof Dir) return `dir ${this.#known(node)}`
    if (!(node instanceof FileNode)) return `link ${sha256(node.target)}`
    const facts = `${node.mode.toString(8)} ${this.#ids.contentId(node)}`
    return node.xattrs === undefined ? `file ${facts}` : `file+ ${facts} ${hashXattrs(node.xattrs)}`
  }
}

/** The line that a directory's own attributes add to its hash. */
function ownLine({ mode, xattrs }: Dir): string {
  const octal = mode.toString(8)
  return xattrs === undefined ? `dir ${octal}` : `dir+ ${octal} ${hashXattrs(xattrs)}`
}

/**
 * The key of a directory in the hashes. An address covers only the entries of a directory, so its own
 * attributes are added.
 */
function keyOf(dir: Dir): Dir | string {
  return dir.address === undefined ? dir : `${dir.address} ${ownLine(dir)}`
}

function frameOf(dir: Dir): Frame {
  return { dir, pages: undefined, hashes: [] }
}

function contentOf(page: Page, loader: NodeLoader): Content {
  const names = page.names ?? loader.loadPage(page)
  return { names, nodes: page.nodes }
}
