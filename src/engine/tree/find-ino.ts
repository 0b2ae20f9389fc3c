import { itemAt } from '../base/present.js'
import { Dir, Link, type Entry } from './node.js'
import type { NodeLoader } from './node-loader.js'
import { findName } from './page.js'

/**
 * The paths in `after` of nodes with these numbers. Searches only its differences from `before`: directories that
 * both share are skipped. A number that is not found there keeps its path.
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
