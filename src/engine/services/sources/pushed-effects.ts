import { whenLoaded } from '../../base/fault.js'
import { parsePath } from '../../base/path.js'
import type { Redo } from '../../records/event.js'
import type { Core } from '../../session/core.js'
import { Dir, FileNode } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'

/**
 * The effects of a push without those on attributes that git does not have: files and directories that stay keep their
 * extended attributes and their permission bits, except for the execute bits of files.
 */
export async function keepingAttributes(core: Core, root: Dir, redo: readonly Redo[]): Promise<Redo[]> {
  const tree = new Tree(root, core.loader)
  const made = new Set<unknown>()
  const kept: Redo[] = []
  for (const effect of redo) {
    const [letter, path] = effect
    if (letter === 'w' || letter === 'd') made.add(path)
    const isOfAttributes = (letter === 'c' || letter === 'x') && typeof path === 'string' && !made.has(path)
    const node = isOfAttributes ? await whenLoaded(() => tree.find(parsePath(path))) : undefined
    if (node instanceof Dir) continue
    if (!(node instanceof FileNode)) kept.push(effect)
    else if (letter === 'c') {
      const mode = (effect[2] & 0o111) !== 0 ? node.mode | ((node.mode & 0o444) >> 2) : node.mode & ~0o111
      if (((node.mode ^ effect[2]) & 0o111) !== 0) kept.push(['c', path, mode])
    }
  }
  return kept
}
