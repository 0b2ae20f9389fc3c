import { whenLoaded } from '../../base/fault.js'
import { splitPath } from '../../base/path.js'
import type { Core } from '../../session/core.js'
import type { BaseAtState } from '../../session/table/live.js'
import { treeChanges } from '../../session/tree-changes.js'
import { FileNode, Symlink, type Dir } from '../../tree/node.js'
import { emptyRoot } from '../../tree/tree.js'
import type { PathChange } from './git-ports.js'

/** The tree that the changes of a commit are relative to. */
export function baseOf(
  core: Core,
  {
    baseline,
    record: {
      baseline: { revision },
    },
  }: BaseAtState,
): Dir {
  if (revision?.git === undefined) return emptyRoot({ ino: 0, mode: 0o755, mtime: 0, ctime: 0, birthtime: 0 })
  // A promoted state is based on a commit with another tree.
  return revision.git.root === undefined ? baseline : core.roots.load(revision.git.root)
}

/** The changes between two trees, as a committer takes them. */
export async function* changesOf(core: Core, base: Dir, root: Dir): AsyncGenerator<PathChange> {
  for await (const { path, after } of treeChanges(core, base, root)) {
    const parts = splitPath(path)
    if (after === undefined) yield { parts, kind: 'removed' }
    else if (after instanceof Symlink) yield { parts, kind: 'symlink', target: after.target }
    else if (after instanceof FileNode) {
      const read = async (): Promise<Uint8Array> =>
        core.content.read(await whenLoaded(() => core.contentIds.body(after)), 0, after.size)
      const executable = (after.mode & 0o111) !== 0
      yield { parts, kind: 'file', executable, read }
    }
  }
}
