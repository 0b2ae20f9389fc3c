import type { Core } from '../../session/core.js'
import { isBelow, type ChangedPath } from './changed-paths.js'
import { unfollowedRenames } from './exact-renames.js'

/**
 * The old paths of files that one side moved to, or below, a contested path, while the other side left them unchanged. The
 * conflict there may drop the new file. A deletion of the old one without a conflict would then lose the file: example:
 * theirs moved `/f` to `/d/f`, and ours wrote a file `/d`.
 */
export async function lostMoves(
  core: Core,
  paths: ReadonlyMap<string, ChangedPath>,
  contested: ReadonlySet<string>,
): Promise<string[]> {
  if (contested.size === 0) return []
  const lost: string[] = []
  for (const side of ['ours', 'theirs'] as const)
    for (const [from, to] of await unfollowedRenames(core, paths, side))
      if (contested.has(to) || isBelow(contested, to)) lost.push(from)
  return lost
}
