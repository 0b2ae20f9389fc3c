import { gitlinkAttribute } from '../../base/gitlink.js'
import { whenLoaded } from '../../base/fault.js'
import type { Core } from '../../session/core.js'
import { visitPaths } from '../../tree/cursor.js'
import { Dir, type Node } from '../../tree/node.js'
import { findXattr } from '../../tree/xattrs.js'
import type { ChangedPath, MergeTrees } from './changed-paths.js'

/**
 * The hash of the commit of a submodule: git has it where a directory has the attribute, and no files. Undefined: git has a
 * directory, or nothing.
 */
export async function submoduleAt(
  core: Core,
  root: Dir,
  path: string,
  node: Node | undefined,
): Promise<string | undefined> {
  const commit = node instanceof Dir ? findXattr(node.xattrs, gitlinkAttribute) : undefined
  if (commit === undefined) return undefined
  let hasFile = false
  await whenLoaded(() => {
    hasFile = false
    visitPaths(root, { prefix: `${path}/`, after: undefined }, core.loader, (_path, found) => {
      hasFile = !(found instanceof Dir)
      return !hasFile
    })
  })
  return hasFile ? undefined : commit.hash
}

/** The side that alone has a submodule at a path, with another commit than the base. */
export async function newSubmoduleOf(
  core: Core,
  trees: MergeTrees,
  path: string,
  { base, ours, theirs }: ChangedPath,
): Promise<'ours' | 'theirs' | undefined> {
  const our = await submoduleAt(core, trees.ours, path, ours)
  const their = await submoduleAt(core, trees.theirs, path, theirs)
  const commit = our ?? their
  if (commit === undefined || (our !== undefined && their !== undefined)) return undefined
  if (commit === (await submoduleAt(core, trees.base, path, base))) return undefined
  return our === undefined ? 'theirs' : 'ours'
}
