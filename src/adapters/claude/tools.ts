import { posix } from 'node:path'
import { EngineError, invalid } from '../../engine/ports.js'
import {
  editTool,
  errorResult,
  globTool,
  grepTool,
  writeTool,
  type Workspace,
  type WorkspaceExec,
  type WorkspaceTool,
} from '../tools/parts.js'
import { bashTool } from './bash.js'
import { limits } from './limits.js'
import { readFileTool } from './read.js'

/** The tools by the names of Claude Code. `Bash` is there only with a function that runs commands. */
export function claudeTools(
  workspace: Workspace,
  { exec, cwd }: { readonly exec: WorkspaceExec | undefined; readonly cwd: string | undefined },
): ReadonlyMap<string, WorkspaceTool> {
  const root = cwd === undefined ? undefined : posix.resolve(cwd)
  const host = root === undefined ? undefined : { root, workspace }
  const tools: [string, WorkspaceTool][] = [
    ['Read', adapted(readFileTool(workspace), host, readInput)],
    ['Write', adapted(writeTool(workspace), host)],
    ['Edit', adapted(editTool(workspace), host)],
    ['Glob', adapted(globTool(workspace), host)],
    ['Grep', adapted(grepTool(workspace), host)],
  ]
  if (exec !== undefined) tools.push(['Bash', bashTool(workspace, exec)])
  return new Map(tools)
}

type Input = Readonly<Record<string, unknown>>

/** The working directory of Claude Code, whose paths mean files of a workspace. */
interface Host {
  readonly root: string
  readonly workspace: Workspace
}

/** A tool that also takes what models write for Claude Code: paths in its working directory, and further fields. */
function adapted(
  tool: WorkspaceTool,
  host: Host | undefined,
  convert: (input: Input) => Input = (input) => input,
): WorkspaceTool {
  return {
    ...tool,
    call: async (input, call) => {
      if (typeof input !== 'object' || input === null || Array.isArray(input)) return tool.call(input, call)
      try {
        return await tool.call(
          convert(host === undefined ? { ...input } : await inWorkspace({ ...input }, host)),
          call,
        )
      } catch (error) {
        return errorResult(error)
      }
    },
  }
}

/** Paths at or below the working directory of Claude Code mean files of the workspace. */
async function inWorkspace(input: Input, { root, workspace }: Host): Promise<Input> {
  const converted: Record<string, unknown> = { ...input }
  for (const field of ['file_path', 'path']) {
    const path = input[field]
    if (typeof path !== 'string' || !path.startsWith('/')) continue
    const whole = posix.resolve(path)
    const isBelow = whole.startsWith(`${root}/`)
    if (whole !== root && !isBelow) continue
    if (root !== '/' && (await hasPath(workspace, root)))
      throw invalid(
        field,
        `has two meanings: the workspace has ${root} itself, and ${root} is its root too. Write a relative path: ` +
          `${posix.relative('/', whole)} for ${whole} of the workspace, or ${posix.relative(root, whole) || '.'}`,
      )
    converted[field] = isBelow ? whole.slice(root.length) : '/'
  }
  return converted
}

async function hasPath(workspace: Workspace, path: string): Promise<boolean> {
  try {
    await workspace.current.files.stat({ path, followSymlinks: false })
    return true
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    if (error.reason === 'PATH_NOT_FOUND' || error.reason === 'NOT_A_DIRECTORY') return false
    throw error
  }
}

/** A file that is too large for one result is read in parts, also with `allow_large`. */
function readInput(input: Input): Input {
  const converted: Record<string, unknown> = { ...input }
  delete converted['allow_large']
  if (typeof input['limit'] === 'number') converted['limit'] = Math.min(input['limit'], limits.readLines)
  return converted
}
