import { tool, type Tool } from 'ai'
import type { SessionApi } from '../../engine/index.js'
import { invalid, Shape } from '../../engine/ports.js'
import {
  workspaceTools,
  type ToolResult,
  type WorkspaceOptions,
  type WorkspaceTool,
  type WorkspaceToolName,
} from '../tools/index.js'

/** Options of {@link workspaceToolSet}. */
export interface WorkspaceToolSetOptions extends WorkspaceOptions {
  /**
   * The turn of the conversation, or a function that returns the present one. The changes of a turn are a group, which
   * `undo({ by: 'group' })` undoes together.
   */
  readonly turn?: string | (() => string)
}

/** The tools of one session for the AI SDK, by their names. */
export type WorkspaceToolSet = Readonly<Record<WorkspaceToolName, Tool<Record<string, unknown>, ToolResult>>>

const optionsShape = new Shape<WorkspaceToolSetOptions>({ metadata: true, guards: true, turn: true })

/**
 * The tools of {@link workspaceTools} for `generateText`, `streamText` and the agents of the AI SDK.
 *
 * Guarantees
 * - A call that changes files is one event, with the `toolCallId` in `details.metadata.callId`.
 * - A call that fails changes nothing. The model gets its text as an error; the loop continues.
 * - `output.data` of a result has the facts for a program, such as `contentHash`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { workspaceToolSet } from 'forkspace/ai-sdk'
 *
 * const tools = workspaceToolSet(session, { turn: 'turn 1' })
 * console.log(Object.keys(tools)) // for generateText({ model, tools, prompt, stopWhen: stepCountIs(20) })
 */
export function workspaceToolSet(
  session: SessionApi,
  options: WorkspaceToolSetOptions = {},
): WorkspaceToolSet {
  const { turn, ...forTools } = optionsShape.read(options, 'options')
  if (turn !== undefined && typeof turn !== 'string' && typeof turn !== 'function')
    throw invalid('turn', 'must be a string, or a function that returns one')
  const tools = Object.values(workspaceTools(session, forTools))
  return Object.fromEntries(tools.map((one) => [one.name, toolOf(one, turn)])) as unknown as WorkspaceToolSet
}

function toolOf(
  one: WorkspaceTool,
  turn: WorkspaceToolSetOptions['turn'],
): WorkspaceToolSet[WorkspaceToolName] {
  return tool({
    description: one.description,
    inputSchema: one.schema,
    execute: (input: Record<string, unknown>, { toolCallId, abortSignal }): Promise<ToolResult> =>
      one.call(input, {
        callId: toolCallId,
        ...(turn !== undefined && { turn: typeof turn === 'function' ? turn() : turn }),
        ...(abortSignal !== undefined && { signal: abortSignal }),
      }),
    toModelOutput: ({ output: { text, isError } }) => ({
      type: isError ? 'error-text' : 'text',
      value: text,
    }),
  })
}
