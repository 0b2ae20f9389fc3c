import { whenLoaded } from '../../base/fault.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { isSameNode } from '../../cas/body.js'
import type { Core } from '../../session/core.js'
import { treeChanges } from '../../session/tree-changes.js'
import { Dir, FileNode, Symlink, type Node } from '../../tree/node.js'
import { sameXattrs } from '../../tree/xattrs.js'

/** The trees of a merge, frozen and protected from collection. */
export interface MergeTrees {
  readonly base: Dir
  readonly ours: Dir
  readonly theirs: Dir
}

export type SideName = keyof MergeTrees

/** A path at which a side differs from the base, with its node on each side. */
export interface ChangedPath {
  base: Node | undefined
  ours: Node | undefined
  theirs: Node | undefined
}

/**
 * The paths that differ on at least one side, in time proportional to the changes.
 *
 * @throws {EngineError} LIMIT_EXCEEDED when there are too many.
 */
export async function changedPaths(core: Core, trees: MergeTrees): Promise<Map<string, ChangedPath>> {
  const paths = new Map<string, ChangedPath>()
  for (const side of ['ours', 'theirs'] as const) {
    for await (const { path, before, after } of treeChanges(core, trees.base, trees[side])) {
      const known = paths.get(path)
      // A path whose kind changed is reported as removed, then as added.
      if (known !== undefined) known[side] = after
      else {
        if (paths.size >= limits.mergePaths) throw tooManyPaths()
        paths.set(path, { base: before, ours: before, theirs: before, [side]: after })
      }
    }
  }
  return paths
}

function tooManyPaths(): EngineError {
  return new EngineError(
    'LIMIT_EXCEEDED',
    `the two sides of the merge changed over ${limits.mergePaths} paths; merge an earlier state of the source first`,
    { limit: String(limits.mergePaths) },
  )
}

/** Whether two nodes have the same kind, content, permission bits and extended attributes. */
export async function sameNode(core: Core, a: Node | undefined, b: Node | undefined): Promise<boolean> {
  if (a === b) return true
  if (a instanceof Dir && b instanceof Dir) return sameAttributes(a, b)
  if (a instanceof Symlink && b instanceof Symlink) return a.target === b.target
  if (!(a instanceof FileNode && b instanceof FileNode)) return false
  return sameAttributes(a, b) && (await sameContent(core, a, b))
}

export async function sameContent(core: Core, a: FileNode, b: FileNode): Promise<boolean> {
  if (a.size !== b.size) return false
  if (a.size === 0 || isSameNode(a.body, b.body)) return true
  return (await contentIdOf(core, a)) === (await contentIdOf(core, b))
}

export function contentIdOf(core: Core, file: FileNode): Promise<string> {
  return whenLoaded(() => core.contentIds.contentId(file))
}

/** Whether two nodes have the same permission bits and extended attributes. */
export function sameAttributes(a: FileNode | Dir, b: FileNode | Dir): boolean {
  return a.mode === b.mode && sameXattrs(a.xattrs, b.xattrs)
}

/** The directories above a path, the nearest first, without the root. */
export function* parentsOf(path: string): Generator<string, void> {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
    yield path.slice(0, end)
}

/** Whether a path is below one of these. */
export function isBelow(paths: ReadonlySet<string>, path: string): boolean {
  if (paths.size > 0) for (const above of parentsOf(path)) if (paths.has(above)) return true
  return false
}
