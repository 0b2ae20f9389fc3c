import { z } from 'zod'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { insertLines, movePath, writeFile } from './file-changes.js'
import { replaceOnce, required, viewPath } from './text-editor.js'
import { defineTool, type ToolOutput, type ToolScope } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import { absolute, type Workspace } from './workspace.js'

const schema = z.strictObject({
  command: z.enum(['view', 'create', 'str_replace', 'insert', 'delete', 'rename']).describe('What to do.'),
  path: z.string().optional().describe('The path of a file or directory in /memories.'),
  view_range: z.tuple([z.int(), z.int()]).optional().describe('For view: the first and last line, from 1.'),
  file_text: z.string().optional().describe('For create: the whole content.'),
  old_str: z
    .string()
    .optional()
    .describe('For str_replace: the text to replace. It must be in the file exactly once.'),
  new_str: z.string().optional().describe('For str_replace: the new text.'),
  insert_line: z
    .int()
    .min(0)
    .optional()
    .describe('For insert: the line after which to insert; 0: at the beginning.'),
  insert_text: z.string().optional().describe('For insert: the lines to insert.'),
  old_path: z.string().optional().describe('For rename: the path to move.'),
  new_path: z.string().optional().describe('For rename: the new path. Nothing may exist there.'),
})

type Input = z.output<typeof schema>
type Command = (workspace: Workspace, scope: ToolScope, input: Input) => Promise<ToolOutput>

/** The directory of the memory tool. Models are trained on this path. */
const directory = '/memories'

/** The memory tool of Anthropic: notes that outlive a conversation, in the directory `/memories` of the workspace. */
export function memoryTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'memory',
    description:
      'Keeps notes in /memories, which stay for later conversations. view shows a file or the directory; create, ' +
      'str_replace, insert, delete and rename change it.',
    schema,
    hints: { destructive: true },
    async run(input, scope) {
      for (const path of [input.path, input.old_path, input.new_path])
        if (path !== undefined) await requireNoLinks(scope.session, absolute(path), input.command)
      return commands[input.command](workspace, scope, input)
    },
  })
}

const commands: Readonly<Record<Input['command'], Command>> = {
  async view(workspace, scope, { path, view_range: range }) {
    const at = inMemory('path', path)
    try {
      return await viewPath(workspace, scope, at, range)
    } catch (error) {
      if (at !== directory || !(error instanceof EngineError) || error.reason !== 'PATH_NOT_FOUND')
        throw error
      return {
        text: `${directory} is empty. Create a file in it to remember something.`,
        data: { path: at, entries: [] },
      }
    }
  },
  async create(workspace, scope, { path, file_text: text }) {
    const at = inMemory('path', path)
    const data = await writeFile(workspace, scope, {
      path: at,
      text: required('file_text', text),
      exclusive: true,
    })
    return { text: `File created successfully at: ${at}`, data }
  },
  async str_replace(workspace, scope, { path, old_str: old, new_str: newText = '' }) {
    return replaceOnce(workspace, scope, {
      path: inMemory('path', path),
      oldText: required('old_str', old),
      newText,
    })
  },
  async insert(workspace, scope, { path, insert_line: line, insert_text: text }) {
    const lines = { line: required('insert_line', line), text: required('insert_text', text) }
    return insertLines(workspace, scope, { path: inMemory('path', path), ...lines })
  },
  async delete(workspace, { session }, { path }) {
    const at = inMemory('path', path)
    if (at === directory) throw invalid('path', `must be below ${directory}, which itself stays`)
    const { kind } = await session.files.stat({ path: at, followSymlinks: false })
    if (kind === 'directory') {
      await requireSeen(workspace, session, at)
      await session.files.removeDirectory({ path: at, recursive: true })
    } else await session.files.delete({ path: at, ...(kind === 'file' && workspace.guard(at)) })
    workspace.forget(at)
    return { text: `Successfully deleted ${at}`, data: { path: at } }
  },
  async rename(workspace, { session }, { old_path: oldPath, new_path: newPath }) {
    const [from, to] = [inMemory('old_path', oldPath), inMemory('new_path', newPath)]
    if (from === directory) throw invalid('old_path', `must be below ${directory}, which itself stays`)
    await movePath(workspace, session, { from, to })
    return { text: `Successfully renamed ${from} to ${to}`, data: { path: to, oldPath: from } }
  },
}

/** An absolute path in the directory of memories. */
function inMemory(field: string, path: string | undefined): string {
  const given = required(field, path)
  const at = absolute(given)
  if (at === directory || at.startsWith(`${directory}/`)) return at
  throw invalid(field, `must be ${directory} or below it; it is ${JSON.stringify(given)}`)
}

/** Fails if a file of a directory changed after the agent read it. Files that the agent has not read may have changed. */
async function requireSeen(workspace: Workspace, session: SessionApi, path: string): Promise<void> {
  for (const seen of workspace.seenBelow(path)) {
    const { expectedHash } = workspace.guard(seen)
    if (expectedHash === undefined) continue
    const actualHash = await session.files.contentHash(seen).catch(() => expectedHash)
    if (actualHash !== expectedHash)
      throw new EngineError('HASH_MISMATCH', `${seen} does not have the expected hash`, {
        path: seen,
        actualHash,
      })
  }
}

/** Fails if a path leads through a symlink, and so perhaps out of the directory. A symlink itself can be deleted. */
async function requireNoLinks(session: SessionApi, path: string, command: Input['command']): Promise<void> {
  const names = path.split('/').slice(1)
  const isOfLink = command === 'delete' || command === 'rename'
  for (let count = 1; count <= names.length - (isOfLink ? 1 : 0); count++) {
    const parent = `/${names.slice(0, count).join('/')}`
    const kind = await kindOf(session, parent)
    if (kind !== 'directory' && kind !== 'symlink') return
    if (kind === 'symlink')
      throw invalid('path', `must not lead through a symlink; ${parent} is one. Name the file itself`)
  }
}

async function kindOf(session: SessionApi, path: string): Promise<string | undefined> {
  try {
    return (await session.files.stat({ path, followSymlinks: false })).kind
  } catch (error) {
    if (error instanceof EngineError && error.reason === 'PATH_NOT_FOUND') return undefined
    throw error
  }
}
