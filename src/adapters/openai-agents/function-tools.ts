import { tool, type Tool } from '@openai/agents'
import type { SessionApi } from '../../engine/index.js'
import { invalid, Shape } from '../../engine/ports.js'
import { workspaceTools, type WorkspaceOptions, type WorkspaceTool } from '../tools/index.js'

/** Options of {@link workspaceFunctionTools}. */
export interface WorkspaceFunctionToolsOptions extends WorkspaceOptions {
  /**
   * The turn of the conversation, or a function that returns the present one. The changes of a turn are a group, which
   * `undo({ by: 'group' })` undoes together.
   */
  readonly turn?: string | (() => string)
}

const optionsShape = new Shape<WorkspaceFunctionToolsOptions>({ metadata: true, guards: true, turn: true })

/**
 * The tools of {@link workspaceTools} as function tools, for the `tools` of an agent.
 *
 * Guarantees
 * - A call that changes files is one event, with the `callId` in `details.metadata.callId`.
 * - A call that fails changes nothing. The model gets its text, and the run continues.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { Agent } from '@openai/agents'
 * import { workspaceFunctionTools } from 'forkspace/openai-agents'
 *
 * const agent = new Agent({ name: 'editor', tools: workspaceFunctionTools(session, { turn: 'turn 1' }) })
 * console.log(agent.tools.length) // 19
 */
export function workspaceFunctionTools(
  session: SessionApi,
  options: WorkspaceFunctionToolsOptions = {},
): Tool[] {
  const { turn, ...forTools } = optionsShape.read(options, 'options')
  checkTurn(turn)
  return Object.values(workspaceTools(session, forTools)).map((one) => functionTool(one, turn))
}

/** Checks the option `turn`. */
export function checkTurn(turn: unknown): void {
  if (turn !== undefined && typeof turn !== 'string' && typeof turn !== 'function')
    throw invalid('turn', 'must be a string, or a function that returns one')
}

function functionTool(one: WorkspaceTool, turn: WorkspaceFunctionToolsOptions['turn']): Tool {
  return tool({
    name: one.name,
    description: one.description,
    // Not the strict mode, in which every property is required. The call itself checks its input.
    parameters: one.inputSchema as unknown as JsonSchema,
    strict: false,
    execute: async (input, _context, details) => {
      const callId = details?.toolCall?.callId
      const { text } = await one.call(input, {
        ...(callId !== undefined && { callId }),
        ...(turn !== undefined && { turn: typeof turn === 'function' ? turn() : turn }),
        ...(details?.signal !== undefined && { signal: details.signal }),
      })
      return text
    },
  })
}

/** A JSON schema as the Agents SDK declares it for tools that are not strict. */
interface JsonSchema {
  readonly type: 'object'
  readonly properties: Record<string, never>
  readonly required: string[]
  readonly additionalProperties: true
}
