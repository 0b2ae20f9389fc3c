import { TimeSlice } from '../../base/cooperative.js'
import type { Core } from '../../session/core.js'
import { Dir, FileNode, type Node } from '../../tree/node.js'
import { parentsOf, type ChangedPath } from './changed-paths.js'
import type { Renames } from './exact-renames.js'

type Paths = ReadonlyMap<string, ChangedPath>
type Side = 'ours' | 'theirs'

/** The renames of both sides that a merge follows. */
export async function followedRenames(
  core: Core,
  paths: Paths,
  { ours, theirs }: Readonly<Record<Side, Renames>>,
): Promise<Readonly<Record<Side, Renames>>> {
  const slice = new TimeSlice(core.environment)
  return {
    ours: await withoutObstructed(paths, ours, 'theirs', slice),
    theirs: await withoutObstructed(paths, theirs, 'ours', slice),
  }
}

/**
 * Leaves out the renames of files that the other side changed, and whose new path it has for something else: another file,
 * a directory, or a path below a file. The conflict at that path would hide the change.
 */
async function withoutObstructed(
  paths: Paths,
  renames: Renames,
  side: Side,
  slice: TimeSlice,
): Promise<Renames> {
  const followed = new Map<string, string>()
  let kept: ReadonlySet<string> | undefined
  for (const [from, to] of renames) {
    if (slice.over) await slice.next()
    if (isFile(paths.get(from)?.[side])) {
      if (isFile(paths.get(to)?.[side]) || isBelowFile(to)) continue
      if (paths.get(to)?.[side] instanceof Dir) {
        kept ??= await keptDirectories()
        if (kept.has(to)) continue
      }
    }
    followed.set(from, to)
  }
  return followed

  /** Whether the other side's version of a file goes where this side moved the file. */
  function movesAlong(path: string, base: Node | undefined, node: Node | undefined): boolean {
    return renames.has(path) && base instanceof FileNode === node instanceof FileNode
  }

  function isBelowFile(path: string): boolean {
    for (const above of parentsOf(path)) {
      const { base, [side]: node } = paths.get(above) ?? {}
      if (isFile(node) && node !== base && !movesAlong(above, base, node)) return true
    }
    return false
  }

  /** The directories that the other side made, or in which it made or changed something that stays there. */
  async function keptDirectories(): Promise<ReadonlySet<string>> {
    const directories = new Set<string>()
    for (const [path, { base, [side]: node }] of paths) {
      if (slice.over) await slice.next()
      if (node === undefined || node === base || (node instanceof Dir && base instanceof Dir)) continue
      if (movesAlong(path, base, node)) continue
      directories.add(path)
      for (const above of parentsOf(path)) {
        if (directories.has(above)) break
        directories.add(above)
      }
    }
    return directories
  }
}

function isFile(node: Node | undefined): boolean {
  return node !== undefined && !(node instanceof Dir)
}
