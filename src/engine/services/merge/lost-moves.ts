import type { Core } from '../../session/core.js'
import { Dir } from '../../tree/node.js'
import { isBelow, type ChangedPath } from './changed-paths.js'
import { unfollowedRenames, type Renames } from './exact-renames.js'

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
  const isContested = (path: string): boolean => contested.has(path) || isBelow(contested, path)
  const [ours, theirs] = [
    await unfollowedRenames(core, paths, 'ours', isContested),
    await unfollowedRenames(core, paths, 'theirs', isContested),
  ]
  return [...ours.keys(), ...theirs.keys()]
}

/**
 * The old paths of files that one side moved below a contested path, or where the other side has a directory, while that side
 * changed them. The conflict there would hide the change, so it stays at the old path. Example: theirs moved `/f` to `/d/f`,
 * ours changed `/f`, and `/d` is a file again because of another conflict.
 */
export function lostChanges(
  paths: ReadonlyMap<string, ChangedPath>,
  renames: Readonly<Record<'ours' | 'theirs', Renames>>,
  { contested, separated }: Readonly<Record<'contested' | 'separated', ReadonlySet<string>>>,
): string[] {
  const lost: string[] = []
  if (contested.size === 0) return lost
  for (const [side, other] of [
    ['ours', 'theirs'],
    ['theirs', 'ours'],
  ] as const)
    for (const [from, to] of renames[side]) {
      const changed = paths.get(from)?.[other]
      if (changed === undefined || changed instanceof Dir) continue
      if (separated.has(to) || isBelow(contested, to)) lost.push(from)
    }
  return lost
}
