import type { LiveSession } from '../session/live.js'
import { resolveEntry } from '../tree/links.js'
import { Dir, type Node } from '../tree/node.js'

interface ListedEntry {
  /** Relative to the listed directory; '' for its own entries. */
  readonly parent: string
  readonly name: string
  readonly node: Node
}

/** The entries of a directory, on request with all that is below it, breadth first as in Node. */
export function listDirectory(live: LiveSession, dir: Dir, recursive: boolean): ListedEntry[] {
  const { loader, root } = live.tree
  const entries: ListedEntry[] = []
  const pending: [parent: string, dir: Dir][] = [['', dir]]
  // Not by shift(), which is linear in what is left.
  for (let next = 0; next < pending.length; next++) {
    const [parent, current] = pending[next]!
    for (const page of current.pages ?? loader.loadDir(current)) {
      const names = page.names ?? loader.loadPage(page)
      for (const [index, name] of names.entries()) {
        const node = resolveEntry(page.nodes[index]!, root, loader)
        entries.push({ parent, name, node })
        if (recursive && node instanceof Dir) pending.push([parent === '' ? name : `${parent}/${name}`, node])
      }
    }
  }
  return entries
}

/** The path of a directory below the listed one. */
export function joinTo(base: string, parent: string): string {
  if (parent === '') return base
  return base.endsWith('/') ? `${base}${parent}` : `${base}/${parent}`
}
