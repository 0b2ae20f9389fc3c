import { posix } from 'node:path'
import {
  editTool,
  globTool,
  grepTool,
  readTool,
  writeTool,
  type Workspace,
  type WorkspaceExec,
  type WorkspaceTool,
} from '../tools/parts.js'
import { bashTool } from './bash.js'
import { limits } from './limits.js'

/** The tools by the names of Claude Code. `Bash` is there only with a function that runs commands. */
export function claudeTools(
  workspace: Workspace,
  { exec, cwd }: { readonly exec: WorkspaceExec | undefined; readonly cwd: string | undefined },
): ReadonlyMap<string, WorkspaceTool> {
  const root = cwd === undefined ? undefined : posix.resolve(cwd)
  const tools: [string, WorkspaceTool][] = [
    ['Read', adapted(readTool(workspace), root, readInput)],
    ['Write', adapted(writeTool(workspace), root)],
    ['Edit', adapted(editTool(workspace), root)],
    ['Glob', adapted(globTool(workspace), root)],
    ['Grep', adapted(grepTool(workspace), root)],
  ]
  if (exec !== undefined) tools.push(['Bash', bashTool(workspace, exec)])
  return new Map(tools)
}

type Input = Readonly<Record<string, unknown>>

/** A tool that also takes what models write for Claude Code: paths in its working directory, and further fields. */
function adapted(
  tool: WorkspaceTool,
  root: string | undefined,
  convert: (input: Input) => Input = (input) => input,
): WorkspaceTool {
  return {
    ...tool,
    call: async (input, call) => {
      if (typeof input !== 'object' || input === null || Array.isArray(input)) return tool.call(input, call)
      return tool.call(convert(root === undefined ? { ...input } : inWorkspace({ ...input }, root)), call)
    },
  }
}

/** Paths at or below the working directory of Claude Code mean files of the workspace. */
function inWorkspace(input: Input, root: string): Input {
  const converted: Record<string, unknown> = { ...input }
  for (const field of ['file_path', 'path']) {
    const path = input[field]
    if (typeof path !== 'string' || !path.startsWith('/')) continue
    const whole = posix.resolve(path)
    if (whole === root) converted[field] = '/'
    else if (whole.startsWith(`${root}/`)) converted[field] = whole.slice(root.length)
  }
  return converted
}

/** A file that is too large for one result is read in parts, also with `allow_large`. */
function readInput(input: Input): Input {
  const converted: Record<string, unknown> = { ...input }
  delete converted['allow_large']
  if (typeof input['limit'] === 'number') converted['limit'] = Math.min(input['limit'], limits.readLines)
  return converted
}
