import { z } from 'zod'
import { editFile, writeFile } from './file-changes.js'
import { defineTool } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import { absolute, type Workspace } from './workspace.js'

const editSchema = z.strictObject({
  file_path: z.string().describe('The path of the file, such as /src/a.ts.'),
  old_string: z.string().describe('The text to replace, exactly as it is in the file.'),
  new_string: z.string().describe('The new text. It is literal.'),
  replace_all: z
    .boolean()
    .optional()
    .describe('true: replaces every occurrence; otherwise the text must occur once.'),
})

const writeSchema = z.strictObject({
  file_path: z.string().describe('The path of the file, such as /src/a.ts. Missing directories are created.'),
  content: z.string().describe('The whole content.'),
})

/** Replaces a text in a file. */
export function editTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'edit',
    description:
      'Replaces a text in a file. It must occur exactly once unless replace_all is true. The error shows the nearest ' +
      'lines, or the lines of all occurrences.',
    schema: editSchema,
    hints: { destructive: true },
    run: ({ file_path: path, old_string: oldText, new_string: newText, replace_all: all = false }, scope) =>
      editFile(workspace, scope, { path: absolute(path), oldText, newText, all }),
  })
}

/** Writes a whole file. */
export function writeTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'write',
    description: 'Writes a whole file, and replaces the file that is there. Prefer edit for small changes.',
    schema: writeSchema,
    hints: { destructive: true, idempotent: true },
    async run({ file_path: given, content }, scope) {
      const path = absolute(given)
      const data = await writeFile(workspace, scope, { path, text: content })
      return { text: `The file ${path} has been written.`, data }
    },
  })
}
