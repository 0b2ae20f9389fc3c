import { z } from 'zod'
import type { SessionApi } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import {
  absolute,
  defineTool,
  editFile,
  writeFile,
  type Workspace,
  type WorkspaceTool,
} from '../tools/parts.js'
import { limits } from './limits.js'

const editsSchema = z.strictObject({
  path: z.string().describe('The path of the file, such as /src/a.ts.'),
  edits: z
    .array(
      z.strictObject({
        oldText: z.string().describe('The text to replace. It must be in the file exactly once.'),
        newText: z.string().describe('The new text. It is literal.'),
      }),
    )
    .min(1)
    .max(limits.edits)
    .describe('The replacements, in order. All take effect, or none.'),
  dryRun: z.boolean().optional().describe('true: says what would change, and changes nothing.'),
})

/** Writes a whole file. */
export function writeFileTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'write_file',
    description:
      'Writes a whole file, and replaces the file that is there. Missing directories are created. Prefer edit_file ' +
      'for small changes.',
    schema: z.strictObject({
      path: z.string().describe('The path of the file, such as /src/a.ts.'),
      content: z.string().describe('The whole content.'),
    }),
    hints: { destructive: true, idempotent: true },
    async run({ path: given, content }, scope) {
      const path = absolute(given)
      const data = await writeFile(workspace, scope, { path, text: content })
      return { text: `Successfully wrote to ${path}`, data }
    },
  })
}

/** Replaces texts in a file. */
export function editFileTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'edit_file',
    description:
      'Replaces texts in a file. Each old text must be in the file exactly once. Line ends of the file stay as they ' +
      'are. If the file changed since it was last read, the call fails.',
    schema: editsSchema,
    hints: { destructive: true },
    run: ({ path, edits, dryRun = false }, scope) =>
      editFile(workspace, scope, { path: absolute(path), edits, dryRun }),
  })
}

/** Creates a directory and its parents. */
export function createDirectoryTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'create_directory',
    description: 'Creates a directory and its missing parents. An existing directory stays as it is.',
    schema: z.strictObject({ path: z.string().describe('The path of the directory, such as /src/lib.') }),
    hints: { idempotent: true },
    async run({ path: given }, { session }) {
      const path = absolute(given)
      await session.files.createDirectory({ path, recursive: true })
      return { text: `Successfully created directory ${path}`, data: { path } }
    },
  })
}

/** Moves or renames a file or directory. */
export function moveFileTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'move_file',
    description:
      'Moves or renames a file or directory. The destination must not exist, and its directory must exist.',
    schema: z.strictObject({
      source: z.string().describe('The present path.'),
      destination: z.string().describe('The new path.'),
    }),
    hints: {},
    async run({ source, destination }, { session }) {
      const [sourcePath, destinationPath] = [absolute(source), absolute(destination)]
      await checkAbsent(session, destinationPath)
      await session.files.rename({ sourcePath, destinationPath })
      workspace.forget(sourcePath)
      return {
        text: `Successfully moved ${sourcePath} to ${destinationPath}`,
        data: { source: sourcePath, destination: destinationPath },
      }
    },
  })
}

async function checkAbsent(session: SessionApi, path: string): Promise<void> {
  try {
    await session.files.stat({ path, followSymlinks: false })
  } catch (error) {
    if (error instanceof EngineError && error.reason === 'PATH_NOT_FOUND') return
    throw error
  }
  throw new EngineError('ALREADY_EXISTS', `the destination ${path} already exists`, { path })
}
