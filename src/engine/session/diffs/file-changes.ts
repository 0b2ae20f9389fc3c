import { runInSlices } from '../../base/cooperative.js'
import type { Core } from '../core.js'
import { treeChanges } from '../tree-changes.js'
import { Dir, type FileNode, type Symlink } from '../../tree/node.js'
import type { DiffRules } from './options.js'
import { RenameCandidates } from './rename-candidates.js'
import { findRenames } from './renames.js'

/** A file or symlink. */
export type Leaf = FileNode | Symlink

/** A file or symlink that two states do not have in common. A side without it is undefined. */
export interface FileChange {
  /** The path in the second state, or in the first one if the file was removed. */
  readonly path: string
  /** The path in the first state, if the file was renamed. */
  readonly oldPath: string | undefined
  readonly before: Leaf | undefined
  readonly after: Leaf | undefined
}

export interface ComparedRoots {
  readonly before: Dir
  readonly after: Dir
}

/** The changed files in the order of the manifest. A renamed file is at its new path. */
export async function* fileChanges(
  core: Core,
  { before, after }: ComparedRoots,
  { isWanted, similarity }: Pick<DiffRules, 'isWanted' | 'similarity'>,
): AsyncGenerator<FileChange, void, undefined> {
  using _ = core.pins.pin({ roots: [before, after] })
  const leaves = (): AsyncGenerator<FileChange, void, undefined> => leafChanges(core, { before, after })
  const candidates = new RenameCandidates()
  if (similarity !== undefined) for await (const change of leaves()) if (!candidates.add(change)) break
  const renames = await findRenames(core, candidates, similarity)
  for await (const change of leaves()) {
    if (change.after === undefined && renames.oldPaths.has(change.path)) continue
    const renamed = change.before === undefined ? renames.byNewPath.get(change.path) : undefined
    const shown =
      renamed === undefined ? change : { ...change, oldPath: renamed.path, before: renamed.before }
    if (
      isWanted === undefined ||
      (await runInSlices(isWanted(shown.path), core.environment)) ||
      (shown.oldPath !== undefined && (await runInSlices(isWanted(shown.oldPath), core.environment)))
    )
      yield shown
  }
}

async function* leafChanges(
  core: Core,
  { before, after }: ComparedRoots,
): AsyncGenerator<FileChange, void, undefined> {
  for await (const change of treeChanges(core, before, after)) {
    const old = leafOf(change.before)
    const current = leafOf(change.after)
    if (old !== undefined || current !== undefined)
      yield { path: change.path, oldPath: undefined, before: old, after: current }
  }
}

function leafOf(node: Leaf | Dir | undefined): Leaf | undefined {
  return node instanceof Dir ? undefined : node
}
