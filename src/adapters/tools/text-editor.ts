import { z } from 'zod'
import { formatNumberedLines } from '../../engine/index.js'
import { EngineError, invalid } from '../../engine/ports.js'
import { editFile, insertLines, writeFile } from './file-changes.js'
import { listTree } from './list-tree.js'
import { limits } from './limits.js'
import { defineTool, type ToolOutput, type ToolScope } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import { absolute, type Workspace } from './workspace.js'

const schema = z.strictObject({
  command: z.enum(['view', 'create', 'str_replace', 'insert']).describe('What to do with the file.'),
  path: z.string().describe('The path of the file, or for view also of a directory, such as /src/a.ts.'),
  view_range: z
    .tuple([z.int(), z.int()])
    .optional()
    .describe('For view: the first and last line, from 1. -1 as the last line is the end of the file.'),
  file_text: z.string().optional().describe('For create: the whole content.'),
  old_str: z
    .string()
    .optional()
    .describe('For str_replace: the text to replace. It must be in the file exactly once.'),
  new_str: z
    .string()
    .optional()
    .describe('For str_replace: the new text, literal; absent: the old text is removed.'),
  insert_line: z
    .int()
    .min(0)
    .optional()
    .describe('For insert: the line after which to insert, from 1; 0 inserts at the beginning.'),
  insert_text: z.string().optional().describe('For insert: the lines to insert.'),
})

type Input = z.output<typeof schema>

/** The text editor that models of Anthropic are trained on: `str_replace_based_edit_tool`. */
export function textEditorTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'str_replace_based_edit_tool',
    description:
      'Views, creates and edits files of the workspace. view shows a file with line numbers, or a directory. ' +
      'create writes a whole file. str_replace replaces a text that occurs exactly once. insert adds lines after a line.',
    schema,
    hints: { destructive: true },
    run: (input, scope) =>
      commands[input.command](workspace, scope, { ...input, path: absolute(input.path) }),
  })
}

type Command = (workspace: Workspace, scope: ToolScope, input: Input) => Promise<ToolOutput>

const commands: Readonly<Record<Input['command'], Command>> = {
  view: (workspace, scope, { path, view_range: range }) => viewPath(workspace, scope, path, range),
  async create(workspace, scope, { path, file_text: text }) {
    const data = await writeFile(workspace, scope, { path, text: required('file_text', text) })
    return { text: `File created successfully at: ${path}`, data }
  },
  async str_replace(workspace, scope, { path, old_str: old, new_str: newText = '' }) {
    return replaceOnce(workspace, scope, { path, oldText: required('old_str', old), newText })
  },
  insert(workspace, scope, { path, insert_line: line, insert_text: inserted, new_str: older }) {
    // Older descriptions of the tool call the text new_str.
    const text = required('insert_text', inserted ?? older)
    return insertLines(workspace, scope, { path, line: required('insert_line', line), text })
  },
}

/** A file with line numbers, or the listing of a directory. */
export async function viewPath(
  workspace: Workspace,
  { session }: ToolScope,
  path: string,
  range: readonly [number, number] | undefined,
): Promise<ToolOutput> {
  const { kind } = await session.files.stat({ path })
  if (kind === 'directory') return listTree(session, path)
  const [startLine = 1, endLine = -1] = range ?? []
  const read = await session.text.readLines({ path, startLine, endLine, limit: limits.readLines })
  workspace.see(path, read.contentHash)
  const more = read.isTruncated
    ? `\n[The file has ${read.totalLines} lines. View the next ones with view_range.]`
    : ''
  return {
    text: `Here's the content of ${path} with line numbers:\n${formatNumberedLines(read.lines)}${more}`,
    data: { path, contentHash: read.contentHash, totalLines: read.totalLines, isTruncated: read.isTruncated },
  }
}

/** Replaces a text that occurs once. Refusals begin with the words that models know. */
export async function replaceOnce(
  workspace: Workspace,
  scope: ToolScope,
  edit: { readonly path: string; readonly oldText: string; readonly newText: string },
): Promise<ToolOutput> {
  try {
    return await editFile(workspace, scope, edit)
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const refusal = refusalOf(error, edit)
    if (refusal === undefined) throw error
    throw new EngineError(error.reason, refusal, { ...error.details })
  }
}

function refusalOf(
  { reason, details, message }: EngineError,
  { path, oldText }: { readonly path: string; readonly oldText: string },
): string | undefined {
  if (reason === 'NO_MATCH')
    return `No replacement was performed, old_str \`${oldText}\` did not appear verbatim in ${path}. ${message}`
  if (reason !== 'NOT_UNIQUE') return undefined
  return (
    `No replacement was performed. Multiple occurrences of old_str \`${oldText}\` in lines: ` +
    `${details['lineNumbers']}. Please ensure it is unique: add lines around it`
  )
}

/** A field that a command needs. */
export function required<T>(field: string, value: T | undefined): T {
  if (value === undefined) throw invalid(field, 'is required for this command')
  return value
}
