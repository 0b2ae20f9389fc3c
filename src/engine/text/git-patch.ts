/** Patches of one file in the format of git. */
import type { StructuredPatch } from 'diff'
import type { Hunk } from './hunks.js'

/** A file on one side of a patch. */
export interface PatchSide {
  /** Absolute, such as `/src/a.ts`. */
  readonly path: string
  /** The mode as git writes it: `100644`, `100755` or `120000`. */
  readonly gitMode: string
}

/** A side that has no such file is undefined. */
export interface PatchSides {
  readonly before: PatchSide | undefined
  readonly after: PatchSide | undefined
}

/**
 * The patch of one file as latin1 text, which has the exact bytes of lines in any encoding. Names outside of
 * ASCII are quoted. Loads the package `diff` on the first call.
 */
export async function formatGitPatch({ before, after }: PatchSides, hunks: readonly Hunk[]): Promise<string> {
  const { formatPatch } = await import('diff')
  const modes = before?.gitMode === after?.gitMode ? {} : modesOf(before, after)
  const patch: StructuredPatch = {
    isGit: true,
    oldFileName: before === undefined ? '/dev/null' : `a${before.path}`,
    newFileName: after === undefined ? '/dev/null' : `b${after.path}`,
    oldHeader: undefined,
    newHeader: undefined,
    isCreate: before === undefined,
    isDelete: after === undefined,
    isRename: before !== undefined && after !== undefined && before.path !== after.path,
    ...modes,
    hunks: hunks.map((hunk) => ({ ...hunk, lines: [...hunk.lines] })),
  }
  return formatPatch(patch)
}

function modesOf(
  before: PatchSide | undefined,
  after: PatchSide | undefined,
): { readonly oldMode?: string; readonly newMode?: string } {
  return {
    ...(before && { oldMode: before.gitMode }),
    ...(after && { newMode: after.gitMode }),
  }
}
