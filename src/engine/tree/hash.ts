import { sha256 } from '../base/hash.js'
import { loaded, type Steps } from '../base/slices.js'
import type { ContentIds } from './content-id.js'
import { Dir, FileNode, type Node, type NodeLoader, type Page } from './node.js'

/** A file from this size on is a step of its own. */
const ownStepBytes = 16 * 1024

/**
 * The canonical hash of a frozen directory: over mode and pages, a page over kind, mode, content and name of
 * its entries. Content only: no times, no inode numbers, no layout of extents. The same tree has the same
 * hash whatever its history. Memoised per page and directory, so it costs what changed.
 */
export function* hashTree(root: Dir, ids: ContentIds, loader: NodeLoader): Steps<string> {
  const stack: Dir[] = root.hash === undefined ? [root] : []
  while (stack.length > 0) {
    const dir = stack.at(-1)!
    const pages = yield* loaded(() => dir.pages ?? loader.loadDir(dir))
    const unhashed: Dir[] = []
    for (const page of pages) {
      if (page.hash !== undefined) continue
      if (page.names === null) yield* loaded(() => page.names ?? loader.loadPage(page))
      for (const node of page.nodes) {
        if (node instanceof Dir && node.hash === undefined) unhashed.push(node)
        else if (node instanceof FileNode && node.size >= ownStepBytes) {
          yield* loaded(() => ids.contentId(node))
          yield undefined
        }
      }
    }
    if (unhashed.length > 0) {
      for (const child of unhashed) stack.push(child)
      continue
    }
    let lines = `dir ${dir.mode.toString(8)}`
    for (const page of pages) {
      if (page.hash === undefined) {
        yield* loaded(() => {
          page.hash = hashPage(page, ids)
        })
        yield undefined
      }
      lines += `\n${page.hash}`
    }
    dir.hash = sha256(lines)
    stack.pop()
    yield undefined
  }
  return root.hash!
}

function hashPage(page: Page, ids: ContentIds): string {
  let lines = ''
  for (const [index, name] of page.names!.entries()) lines += `${describe(page.nodes[index]!, ids)} ${name}\0`
  return sha256(lines)
}

function describe(node: Node, ids: ContentIds): string {
  if (node instanceof Dir) return `dir ${node.hash}`
  if (node instanceof FileNode) return `file ${node.mode.toString(8)} ${ids.contentId(node)}`
  return `link ${sha256(node.target)}`
}
