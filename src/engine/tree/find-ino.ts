import { itemAt } from '../base/present.js'
import { Dir, Link, type Entry } from './node.js'
import type { NodeLoader } from './node-loader.js'
import { findName } from './page.js'

/**
 * Finds the paths in `after` of the nodes with these inode numbers. It searches only the differences from
 * `before`, and skips directories that both trees share. A node that is not found there keeps its path.
 */
export function findInos(
  before: Dir,
  after: Dir,
  inos: ReadonlySet<number>,
  loader: NodeLoader,
): Map<number, string> {
  const found = new Map<number, string>()
  const walk = (old: Entry | undefined, dir: Dir, path: string): void => {
    if (old === dir || (old instanceof Dir && old.address !== undefined && old.address === dir.address))
      return
    for (const page of dir.pages ?? loader.loadDir(dir)) {
      const names = page.names ?? loader.loadPage(page)
      for (const [index, name] of names.entries()) {
        const entry = itemAt(page.nodes, index)
        const known = old instanceof Dir ? findName(old, name, loader) : undefined
        if (entry === known) continue
        const entryPath = `${path}/${name}`
        if (!(entry instanceof Link) && inos.has(entry.ino)) found.set(entry.ino, entryPath)
        if (entry instanceof Dir) walk(known, entry, entryPath)
      }
    }
  }
  walk(before, after, '')
  return found
}
