import { z } from 'zod'
import { defineTool } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import type { Workspace } from './workspace.js'

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
      const { files } = await session.text.applyPatch({ patch, dryRun })
      for (const { path, oldPath, change, contentHash } of dryRun ? [] : files) {
        if (oldPath !== '') workspace.forget(oldPath)
        if (change === 'deleted') workspace.forget(path)
        else workspace.see(path, contentHash)
      }
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
