import { itemAt } from '../../base/present.js'
import { whenLoaded } from '../../base/fault.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { Core } from '../../session/core.js'
import { resolveEntry } from '../../tree/links.js'
import { Dir, Link, type Entry, type Node } from '../../tree/node.js'

/** The entries of a directory of a frozen tree, by name. */
export async function nodesIn(core: Core, root: Dir, dir: Dir): Promise<Map<string, Node>> {
  const nodes = new Map<string, Node>()
  for (const [name, entry] of await entriesIn(core, dir))
    nodes.set(name, await whenLoaded(() => resolveEntry(entry, root, core.loader)))
  return nodes
}

/** All names of each hard-linked file, by inode number. */
export async function namesOf(core: Core, root: Dir): Promise<Map<number, string[]>> {
  const names = new Map<number, string[]>()
  const pending: [path: string, dir: Dir][] = [['', root]]
  const slice = new TimeSlice(core.environment)
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [path, dir] = next
    if (!dir.linked) continue
    if (slice.over) await slice.next()
    for (const [name, entry] of await entriesIn(core, dir)) {
      if (entry instanceof Dir) pending.push([`${path}/${name}`, entry])
      if (!(entry instanceof Link)) continue
      const known = names.get(entry.ino)
      if (known === undefined) names.set(entry.ino, [`${path}/${name}`])
      else known.push(`${path}/${name}`)
    }
  }
  return names
}

async function entriesIn(core: Core, dir: Dir): Promise<[name: string, entry: Entry][]> {
  const entries: [string, Entry][] = []
  for (const page of await whenLoaded(() => dir.pages ?? core.loader.loadDir(dir))) {
    const names = await whenLoaded(() => page.names ?? core.loader.loadPage(page))
    for (const [index, name] of names.entries()) entries.push([name, itemAt(page.nodes, index)])
  }
  return entries
}
