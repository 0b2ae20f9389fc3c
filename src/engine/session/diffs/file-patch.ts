import { runInSlices } from '../../base/cooperative.js'
import { binaryPatch } from '../../text/binary-patch.js'
import { formatGitPatch, type PatchSide } from '../../text/git-patch.js'
import { hunksOf } from '../../text/hunks.js'
import { bytesOf } from '../../text/byte-text.js'
import { Symlink } from '../../tree/node.js'
import type { Core } from '../core.js'
import { ContentComparison, type ContentChange } from './content-change.js'
import { fileChanges, type ComparedRoots, type FileChange, type Leaf } from './file-changes.js'
import type { DiffRules } from './options.js'

/** The patch of each changed file. Files that differ only in attributes that git does not store have none. */
export async function* patches(
  core: Core,
  roots: ComparedRoots,
  rules: DiffRules,
): AsyncGenerator<Uint8Array, void, undefined> {
  const contents = new ContentComparison(core)
  for await (const change of fileChanges(core, roots, rules)) {
    const patch = await patchOf(core, change, {
      content: await contents.compare(change),
      context: rules.context,
    })
    if (patch.length > 0) yield patch
  }
}

/** The bytes of the patch of one file. None if git sees no change. */
export async function patchOf(
  core: Core,
  change: FileChange,
  compared: { readonly content: ContentChange; readonly context: number },
): Promise<Uint8Array> {
  return bytesOf(await textOf(core, change, compared))
}

async function textOf(
  core: Core,
  change: FileChange,
  { content, context }: { readonly content: ContentChange; readonly context: number },
): Promise<string> {
  const sides = {
    before: sideOf(change.oldPath ?? change.path, change.before),
    after: sideOf(change.path, change.after),
  }
  if (content.kind === 'text') {
    const { before, after, changes } = content
    const hunks = await runInSlices(hunksOf(before, after, changes, context), core.environment)
    return isUnchanged(change, sides) && hunks.length === 0 ? '' : formatGitPatch(sides, hunks)
  }
  if (content.kind === 'same') return isUnchanged(change, sides) ? '' : formatGitPatch(sides, [])
  const head = await formatGitPatch(sides, [])
  if (content.kind === 'binary') return head + (await binaryPatch(content))
  return `${head}Binary files differ\n`
}

function sideOf(path: string, node: Leaf | undefined): PatchSide | undefined {
  if (node === undefined) return undefined
  if (node instanceof Symlink) return { path, gitMode: '120000' }
  return { path, gitMode: (node.mode & 0o100) === 0 ? '100644' : '100755' }
}

/** Whether the path and the mode of git stay the same. */
function isUnchanged(
  { oldPath }: FileChange,
  { before, after }: { readonly before: PatchSide | undefined; readonly after: PatchSide | undefined },
): boolean {
  return oldPath === undefined && before?.gitMode === after?.gitMode
}
