import { expect } from 'vitest'
import { limits } from '../../src/index.js'
import { whenLoaded } from '../../src/engine/base/fault.js'
import {
  Dir,
  FileNode,
  Link,
  LinkedFile,
  type Entry,
  type Node,
  type Page,
} from '../../src/engine/tree/node.js'
import type { NodeLoader } from '../../src/engine/tree/node-loader.js'
import { resolveEntry } from '../../src/engine/tree/links.js'
import { endsPage } from '../../src/engine/tree/page.js'
import { compareBytes } from './model-tree.js'

/**
 * Loads a whole tree and checks every directory's pages: names are in the order of their UTF-8 bytes, and each page
 * ends exactly at a name that ends a page. Returns the tree as lines with all attributes.
 */
export async function checkTree(root: Dir, loader: NodeLoader): Promise<string[]> {
  const lines: string[] = []
  const resolved = (entry: Entry): Node | Promise<Node> =>
    entry instanceof Link ? whenLoaded(() => resolveEntry(entry, root, loader)) : entry
  const walk = async (dir: Dir, path: string): Promise<void> => {
    const pages = await whenLoaded(() => dir.pages ?? loader.loadDir(dir))
    for (const page of pages) await whenLoaded(() => page.names ?? loader.loadPage(page))
    checkPages(pages)
    // It is stored with the directory. If it also had an address, a collection could delete the node at that address.
    if (pages.length === 1) expect(pages[0]?.address).toBeUndefined()
    for (const page of pages) {
      for (const [index, name] of page.names!.entries()) {
        const node = await resolved(page.nodes[index]!)
        lines.push(describe(`${path}/${name}`, node))
        if (node instanceof Dir) await walk(node, `${path}/${name}`)
      }
    }
  }
  lines.push(describe('/', root))
  await walk(root, '')
  return lines
}

export function checkPages(pages: readonly Page[]): void {
  expect(pages.map((page) => page.names!)).toEqual(canonicalPages(pages.flatMap((page) => page.names!)))
  for (const page of pages) {
    expect(page.nodes.length).toBe(page.names!.length)
    expect(page.last).toBe(page.names!.at(-1) ?? '')
  }
  for (const page of pages.slice(0, -1))
    expect(endsPage(page.last) || page.names!.length === limits.namesPerPage).toBe(true)
}

/** The pages of a directory with these names, independent of their insertion order. */
export function canonicalPages(names: readonly string[]): string[][] {
  const pages: string[][] = []
  let page: string[] = []
  for (const name of names.toSorted(compareBytes)) {
    page.push(name)
    if (!endsPage(name) && page.length < limits.namesPerPage) continue
    pages.push(page)
    page = []
  }
  if (page.length > 0 || pages.length === 0) pages.push(page)
  return pages
}

function describe(path: string, node: Node): string {
  const quoted = JSON.stringify(path)
  if (node instanceof Dir) return `${quoted} ${attributes(node)}`
  if (node instanceof FileNode) {
    const names = node instanceof LinkedFile ? node.nlink : 1
    return `${quoted} ${attributes(node)} ${node.size} ${names}`
  }
  return `${quoted} ${node.ino} ${node.target} ${node.mtime}`
}

function attributes(node: Dir | FileNode): string {
  const xattrs = (node.xattrs ?? []).map(([name, value]) => `${name}=${value.hash}`)
  return `${node.ino} ${node.mode.toString(8)} ${node.mtime} ${node.ctime} ${node.birthtime} ${xattrs.join()}`
}
