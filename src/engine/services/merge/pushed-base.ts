import type { Core } from '../../session/core.js'
import { Dir } from '../../tree/node.js'
import { changedPaths, sameNode } from './changed-paths.js'
import { resultOf } from './merge-redo.js'
import type { File } from './merged-trees.js'

/**
 * The base of a rebase onto a revision that is not known to build on the commits of the session. Where a path is the same in
 * the revision and in a commit of the session, the other side has not changed it since. So the base has that version.
 */
export async function pushedBase(core: Core, base: Dir, theirs: Dir, commits: readonly Dir[]): Promise<Dir> {
  const files = new Map<string, File | undefined>()
  const directories = new Map<string, Dir | undefined>()
  for (const ours of commits) {
    for (const [path, { base: before, ours: pushed, theirs: now }] of await changedPaths(core, {
      base,
      ours,
      theirs,
    })) {
      if (!(await sameNode(core, pushed, now))) continue
      const isDirectory = pushed instanceof Dir
      if (isDirectory || before instanceof Dir) directories.set(path, isDirectory ? pushed : undefined)
      if (!isDirectory || !(before instanceof Dir)) files.set(path, isDirectory ? undefined : pushed)
    }
  }
  if (files.size === 0 && directories.size === 0) return base
  return resultOf(core, base, { files, directories, moves: new Map() })
}
