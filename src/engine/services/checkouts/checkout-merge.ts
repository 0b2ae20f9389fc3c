import { onlyItem } from '../../base/present.js'
import { whenLoaded } from '../../base/fault.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { Core } from '../../session/core.js'
import { piecesFrom, type Redo } from '../../records/event.js'
import { treeChanges } from '../../session/tree-changes.js'
import { Dir, FileNode, LinkedFile, Symlink, type Node } from '../../tree/node.js'
import { FrozenTree, modified, sameMode } from './checkout-disk.js'
import { splitParent } from './checkout-index.js'
import { fileOf, type DiskChange, type Found } from './checkout-read.js'

export interface Merge {
  readonly redo: readonly Redo[]
  readonly paths: readonly string[]
}

/**
 * The redo that applies a directory's changes to a session's tree, which may differ from the tree that was
 * written there.
 *
 * @throws {EngineError} CHECKOUT_MODIFIED when both sides changed a path, and the results differ
 */
export async function mergeChanges(
  core: Core,
  changes: readonly DiskChange[],
  base: Dir,
  current: Dir,
): Promise<Merge> {
  const session = await SessionChanges.find(core, base, current)
  const tree = new FrozenTree(core, current)
  const redo: Redo[] = []
  const paths: string[] = []
  const carried = new Set<string>()
  const slice = new TimeSlice(core.environment)
  for (const change of changes) {
    if (slice.over) await slice.next()
    const { path, before, found } = change
    const node = await tree.find(path)
    if (session.changed(path)) {
      if (!(await isFound(core, node, found)))
        throw modified(
          path,
          'was changed both in the directory and in the session; make one side equal to the other, then sync again',
        )
      continue
    }
    if (found !== undefined && session.replaced(path))
      throw modified(
        path,
        'was changed in a directory that the session deleted; move it elsewhere, then sync again',
      )
    if (before instanceof Dir && found?.kind !== 'directory' && session.keepsBelow(path))
      throw modified(path, 'was deleted or replaced, but the session changed files in it; run update() first')
    // Both sides removed the directory of this path.
    if (found === undefined && node === undefined) continue
    const linkTo = found?.kind === 'file' ? found.linkTo : undefined
    const linkable = linkTo !== undefined && (carried.has(linkTo) || !session.changed(linkTo))
    redo.push(...redoOf(core, path, node, found, linkable ? linkTo : undefined))
    paths.push(path)
    carried.add(path)
  }
  return { redo, paths }
}

/** The changes of a session since a base tree. */
class SessionChanges {
  readonly #after = new Map<string, Node | undefined>()
  /** Directories that have a changed entry below them that still exists. */
  readonly #kept = new Set<string>()

  static async find(core: Core, base: Dir, current: Dir): Promise<SessionChanges> {
    const changes = new SessionChanges()
    for await (const { path, before, after } of treeChanges(core, base, current)) {
      if (await isShownAlike(core, before, after)) continue
      changes.#after.set(path, after)
      if (after === undefined) continue
      for (let above = splitParent(path).parent; !changes.#kept.has(above);) {
        changes.#kept.add(above)
        above = splitParent(above).parent
      }
    }
    return changes
  }

  changed(path: string): boolean {
    return this.#after.has(path)
  }

  keepsBelow(path: string): boolean {
    return this.#kept.has(path)
  }

  /** Whether a parent directory of the path was removed or replaced. */
  replaced(path: string): boolean {
    for (let above = splitParent(path).parent; above !== '/'; above = splitParent(above).parent)
      if (this.#after.has(above) && !(this.#after.get(above) instanceof Dir)) return true
    return false
  }
}

/** Whether two nodes look equal in a directory of the host, which does not show extended attributes. */
async function isShownAlike(core: Core, a: Node | undefined, b: Node | undefined): Promise<boolean> {
  if (a instanceof Dir && b instanceof Dir) return sameMode(a.mode, b.mode)
  return a instanceof FileNode && b instanceof FileNode && sameMode(a.mode, b.mode) && sameContent(core, a, b)
}

async function sameContent(core: Core, a: FileNode, b: FileNode): Promise<boolean> {
  if (a.size !== b.size) return false
  const idOf = (file: FileNode): Promise<string> => whenLoaded(() => core.contentIds.contentId(file))
  return (await idOf(a)) === (await idOf(b))
}

async function isFound(core: Core, node: Node | undefined, found: Found | undefined): Promise<boolean> {
  if (node === undefined || found === undefined) return node === undefined && found === undefined
  if (found.kind === 'symlink') return node instanceof Symlink && node.target === found.target
  if (node instanceof Symlink || !sameMode(node.mode, found.mode)) return false
  if (found.kind === 'directory') return node instanceof Dir
  return node instanceof FileNode && sameContent(core, node, fileOf(found.content))
}

function redoOf(
  core: Core,
  path: string,
  node: Node | undefined,
  found: Found | undefined,
  linkTo: string | undefined,
): Redo[] {
  if (found === undefined) return [['u', path]]
  const ino = core.ids.newIno()
  if (found.kind === 'directory') {
    if (node instanceof Dir) return [['c', path, found.mode]]
    return [...gone(path, node), ['d', path, found.mode, ino]]
  }
  if (found.kind === 'symlink')
    return [...gone(path, node), ['s', path, found.target, ino], ['t', path, found.mtimeMs]]
  if (linkTo !== undefined) return [...gone(path, node), ['h', linkTo, path]]
  const { mode, mtimeMs, sameContent } = found
  if (sameContent && node instanceof FileNode) return [['c', path, mode]]
  const { blobs, size } = found.content
  const single = onlyItem(blobs) ?? 0
  const pieces: Redo[] = blobs.length > 1 ? [['p', path, size, piecesFrom(0, blobs)]] : []
  const time: Redo = ['t', path, mtimeMs]
  if (node instanceof FileNode && !(node instanceof LinkedFile)) {
    const modes: Redo[] = sameMode(node.mode, mode) ? [] : [['c', path, mode]]
    return [['o', path, single], ...pieces, ...modes, time]
  }
  // The other names of the file keep their attributes unless they have changed too.
  const xattrs = node instanceof LinkedFile ? (node.xattrs ?? []) : []
  return [
    ...gone(path, node),
    ['w', path, mode, ino, single],
    ...pieces,
    ...xattrs.map(([name, value]): Redo => ['x', path, name, value]),
    time,
  ]
}

function gone(path: string, node: Node | undefined): Redo[] {
  return node === undefined ? [] : [['u', path]]
}
