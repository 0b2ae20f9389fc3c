import { fileReferences, memoryReferences, type References, type StoredKind } from './references.js'
import { Dir, type Page } from './node.js'
import type { PinnedNode } from './pins.js'

/** How {@link treeReferences} visits nodes. */
export interface TreeVisitor extends References {
  /** Whether the node at an address is stored. Its own references are then those of the stored node. */
  isStored(address: string): Promise<boolean>
  /** Called between two pages. */
  rest(): Promise<void>
}

/**
 * Reports the references of a tree or file in memory: its stored nodes, and the references of all other nodes. A node
 * with an address may not be stored yet, because its write is still under way. Then its references in memory count. `seen` has the nodes
 * that are not stored and were visited.
 */
export async function treeReferences(
  pinned: PinnedNode,
  visitor: TreeVisitor,
  seen: Set<Dir | Page>,
): Promise<void> {
  if (!(pinned instanceof Dir)) {
    if (pinned.last !== undefined) fileReferences(pinned.last, visitor)
    return
  }
  const isDone = async (node: Dir | Page, kind: StoredKind): Promise<boolean> => {
    if (node.address !== undefined && (await visitor.isStored(node.address))) {
      visitor.node(node.address, kind)
      return true
    }
    if (seen.has(node)) return true
    seen.add(node)
    return false
  }
  const directories: Dir[] = [pinned]
  const references = {
    node: (address: string, kind: StoredKind): void => visitor.node(address, kind),
    blob: (hash: string): void => visitor.blob(hash),
    directory: (dir: Dir): void => {
      directories.push(dir)
    },
  }
  for (let dir = directories.pop(); dir !== undefined; dir = directories.pop()) {
    for (const [, value] of dir.xattrs ?? []) visitor.blob(value.hash)
    if (dir.links !== undefined) directories.push(dir.links)
    if (await isDone(dir, 'directory')) continue
    for (const page of dir.pages ?? []) {
      if (await isDone(page, 'page')) continue
      if (page.names !== null) memoryReferences(page.nodes, references)
      await visitor.rest()
    }
  }
}
