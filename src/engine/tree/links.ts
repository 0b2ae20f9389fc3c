import { EngineError } from '../base/errors.js'
import { Dir, Link, linkKey, LinkedFile, type Entry, type Node } from './node.js'
import type { NodeLoader } from './node-loader.js'
import { findName } from './page.js'

/** The node of a directory's entry, in the tree with this root. */
export function resolveEntry(entry: Entry, root: Dir, loader: NodeLoader): Node
export function resolveEntry(entry: Entry | undefined, root: Dir, loader: NodeLoader): Node | undefined
export function resolveEntry(entry: Entry | undefined, root: Dir, loader: NodeLoader): Node | undefined {
  if (!(entry instanceof Link)) return entry
  const file = findLinked(root, entry.ino, loader)
  if (file === undefined)
    throw new EngineError(
      'DATA_LOSS',
      `the stored tree has a hard link to file number ${entry.ino}, which is missing`,
      { ino: String(entry.ino) },
    )
  return file
}

/** The hard-linked file with this inode number. */
export function findLinked(root: Dir, ino: number, loader: NodeLoader): LinkedFile | undefined {
  const file = root.links === undefined ? undefined : findName(root.links, linkKey(ino), loader)
  return file instanceof LinkedFile ? file : undefined
}

/** Whether an entry is a link or has one below it. */
export function isLinked(entry: Entry): boolean {
  return entry instanceof Link || (entry instanceof Dir && entry.linked)
}

/** Calls `visit` with the inode number of an entry that is a link, or of each link below it. */
export function forEachLink(entry: Entry, loader: NodeLoader, visit: (ino: number) => void): void {
  if (entry instanceof Link) return visit(entry.ino)
  if (!(entry instanceof Dir) || !entry.linked) return
  for (const page of entry.pages ?? loader.loadDir(entry)) {
    if (page.names === null) loader.loadPage(page)
    for (const node of page.nodes) forEachLink(node, loader, visit)
  }
}
