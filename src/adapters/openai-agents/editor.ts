import { applyPatchTool, type ApplyPatchTool, type Editor } from '@openai/agents'
import type { SessionApi } from '../../engine/index.js'
import { EngineError, invalid, Shape } from '../../engine/ports.js'
import { workspaceTools, type ToolResult, type WorkspaceOptions } from '../tools/index.js'
import { checkTurn } from './function-tools.js'

type Operation = Parameters<Editor['createFile' | 'updateFile' | 'deleteFile']>[0]

/** Options of {@link workspacePatchTool}. */
export interface WorkspacePatchToolOptions {
  /** Facts for the metadata of every event, such as the name of the agent. */
  readonly metadata?: NonNullable<WorkspaceOptions['metadata']>
  /** The turn of the conversation, or a function that returns the present one. */
  readonly turn?: string | (() => string)
  /** Whether a person must approve an operation, as in `applyPatchTool`. */
  readonly needsApproval?: NonNullable<Parameters<typeof applyPatchTool>[0]['needsApproval']>
}

const optionsShape = new Shape<WorkspacePatchToolOptions>({ metadata: true, turn: true, needsApproval: true })

/**
 * An editor on a session, for `applyPatchTool({ editor })`. Its context does not say the id of a call; the tool of
 * {@link workspacePatchTool} knows it.
 *
 * Guarantees
 * - An operation is one event, and changes only its own path, and the path that it moves a file to.
 * - Lines of context must match the file. An operation that fails changes nothing; its output has the nearest lines.
 * - A file that exists is not created again.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the session is none.
 *
 * @example
 * import { applyPatchTool } from '@openai/agents'
 * import { workspaceEditor } from 'forkspace/openai-agents'
 *
 * const tool = applyPatchTool({ editor: workspaceEditor(session) })
 * console.log(tool.name) // apply_patch
 */
export function workspaceEditor(session: SessionApi): Editor {
  return editorOn(session, () => ({}))
}

/**
 * The tool `apply_patch` of the Agents SDK on a session: {@link workspaceEditor}, whose events also have the id of the
 * call in `details.metadata.callId`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { Agent } from '@openai/agents'
 * import { workspacePatchTool } from 'forkspace/openai-agents'
 *
 * const agent = new Agent({ name: 'editor', tools: [workspacePatchTool(session, { turn: 'turn 1' })] })
 */
export function workspacePatchTool(
  session: SessionApi,
  options: WorkspacePatchToolOptions = {},
): ApplyPatchTool {
  const { metadata, turn, needsApproval = false } = optionsShape.read(options, 'options')
  checkTurn(turn)
  if (typeof needsApproval !== 'boolean' && typeof needsApproval !== 'function')
    throw invalid('needsApproval', 'must be true, false, or a function that returns one of them')
  const callIds = new WeakMap<Operation, string>()
  const editor = editorOn(
    session,
    (operation) => {
      const callId = callIds.get(operation)
      return {
        ...(callId !== undefined && { callId }),
        ...(turn !== undefined && { turn: typeof turn === 'function' ? turn() : turn }),
      }
    },
    metadata,
  )
  return applyPatchTool({
    editor,
    // The only call that says which operation belongs to which id. It comes before the one of the editor.
    needsApproval: async (context, operation, callId) => {
      if (callId !== undefined) callIds.set(operation, callId)
      return typeof needsApproval === 'function' ? needsApproval(context, operation, callId) : needsApproval
    },
  })
}

function editorOn(
  session: SessionApi,
  callOf: (operation: Operation) => { readonly callId?: string; readonly turn?: string },
  metadata?: WorkspacePatchToolOptions['metadata'],
): Editor {
  const { apply_patch: tool } = workspaceTools(session, metadata === undefined ? {} : { metadata })
  const apply = async (operation: Operation) => {
    const { text, isError }: ToolResult = await tool.call({ patch: patchOf(operation) }, callOf(operation))
    return { status: isError ? ('failed' as const) : ('completed' as const), output: text }
  }
  return { createFile: apply, updateFile: apply, deleteFile: apply }
}

/** The whole patch of an operation. Its diff has only the lines below the name of the file. */
function patchOf(operation: Operation): string {
  const lines = ['*** Begin Patch']
  if (operation.type === 'delete_file') lines.push(`*** Delete File: ${nameOf(operation.path)}`)
  else {
    const verb = operation.type === 'create_file' ? 'Add' : 'Update'
    lines.push(`*** ${verb} File: ${nameOf(operation.path)}`)
    if ('moveTo' in operation && typeof operation.moveTo === 'string')
      lines.push(`*** Move to: ${nameOf(operation.moveTo)}`)
    lines.push(...linesOf(operation))
  }
  return [...lines, '*** End Patch'].join('\n')
}

function nameOf(path: string): string {
  if (typeof path === 'string' && path !== '' && !/[\r\n]/.test(path)) return path
  throw new EngineError(
    'INVALID_PATCH',
    `the path ${JSON.stringify(path)} must be a name without a line break`,
  )
}

/** Splits a diff into lines. Refuses a diff that names another file: an approval names only the file of its operation. */
function linesOf({ path, diff }: { readonly path: string; readonly diff: string }): string[] {
  const lines = diff === '' ? [] : diff.replace(/\r?\n$/, '').split(/\r?\n/)
  const foreign = lines.find((line) => line.startsWith('***') && line.trimEnd() !== '*** End of File')
  if (foreign === undefined) return lines
  throw new EngineError(
    'INVALID_PATCH',
    `the diff of ${path} has the line ${JSON.stringify(foreign)}: a diff has only lines that begin with a space, +, - or @@`,
    { file: path },
  )
}
