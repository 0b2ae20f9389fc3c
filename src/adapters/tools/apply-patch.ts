import { z } from 'zod'
import type { SessionApi } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import { defineTool } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import type { Workspace } from './workspace.js'

type Patched = Awaited<ReturnType<SessionApi['text']['applyPatch']>>

const schema = z.strictObject({
  patch: z
    .string()
    .describe('The patch: of the form *** Begin Patch … *** End Patch, or a unified diff as git writes it.'),
  dry_run: z.boolean().optional().describe('true: says what would change, and changes nothing.'),
})

/** Applies a patch to several files at once: the format V4A of OpenAI, or a unified diff. */
export function applyPatchTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'apply_patch',
    description:
      'Creates, changes, moves and deletes files by a patch. All files change, or none. Begin with *** Begin Patch; ' +
      'then *** Add File: path, *** Update File: path with @@ and lines that begin with space, - or +, *** Move to: ' +
      'path, *** Delete File: path; end with *** End Patch. Unified diffs work too.',
    schema,
    hints: { destructive: true },
    async run({ patch, dry_run: dryRun = false }, { session }) {
      const { files } = dryRun
        ? await session.text.applyPatch({ patch, dryRun })
        : await applyGuarded(workspace, session, patch)
      const lines = files.map(
        ({ path, oldPath, change, addedLineCount, removedLineCount }) =>
          `${change} ${oldPath === '' ? '' : `${oldPath} -> `}${path} (+${addedLineCount} -${removedLineCount})`,
      )
      return {
        text: `${dryRun ? 'The patch would change' : 'The patch changed'}:\n${lines.join('\n')}`,
        data: { files: files.map((file) => ({ ...file })) },
      }
    },
  })
}

/**
 * Applies a patch to the versions that the agent has read. The lines of context of an update are a guard of their own,
 * so an update of a newer version is applied; the agent then still has not seen that version. A file of another version
 * is neither deleted nor moved.
 */
async function applyGuarded(workspace: Workspace, session: SessionApi, patch: string): Promise<Patched> {
  const { files: planned } = await session.text.applyPatch({ patch, dryRun: true })
  const updated = new Set(planned.filter(({ change }) => change === 'modified').map(({ path }) => path))
  const expected = new Map<string, string>()
  for (const { path, oldPath, change } of planned) {
    if (change === 'created' || change === 'copied') continue
    const from = oldPath === '' ? path : oldPath
    const { expectedHash } = workspace.guard(from)
    if (expectedHash !== undefined) expected.set(from, expectedHash)
  }
  const newer = new Set<string>()
  for (;;) {
    try {
      const result = await session.text.applyPatch({ patch, expectedHashes: Object.fromEntries(expected) })
      remember(workspace, result, newer)
      return result
    } catch (error) {
      const path = error instanceof EngineError && error.reason === 'HASH_MISMATCH' && error.details['path']
      if (typeof path !== 'string' || !updated.has(path) || !expected.delete(path)) throw error
      newer.add(path)
      // Each attempt applies the whole patch, so the other newer versions are found at once.
      for (const other of updated) {
        const hash = expected.get(other)
        if (hash === undefined || (await session.files.contentHash(other)) === hash) continue
        expected.delete(other)
        newer.add(other)
      }
    }
  }
}

function remember(workspace: Workspace, { files }: Patched, newer: ReadonlySet<string>): void {
  for (const { path, oldPath, change, contentHash } of files) {
    if (oldPath !== '' && change !== 'copied') workspace.forgetFile(oldPath)
    if (change === 'deleted') workspace.forgetFile(path)
    else if (!newer.has(path)) workspace.see(path, contentHash)
  }
}
