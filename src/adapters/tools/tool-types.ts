import type { z } from 'zod'
import type { JsonObject } from '../../engine/index.js'

/** What an agent loop knows about one tool call. */
export interface ToolCall {
  /** The id of the call. The event of its change has it as `details.metadata.callId`. */
  readonly callId?: string
  /** The turn of the conversation. Its changes are a group: `undo({ by: 'group' })` undoes them together. */
  readonly turn?: string
  /** Ends a search, or the waiting for one, with the signal's reason. */
  readonly signal?: AbortSignal
}

/** The result of a tool call, as a model and a program read it. */
export interface ToolResult {
  /** The text for the model. */
  readonly text: string
  /** Whether the call failed. A failed call changed nothing. */
  readonly isError: boolean
  /** The same facts for a program, such as `contentHash` and `hunks`; of a failed call, `reason` and `details`. */
  readonly data: JsonObject
}

/** Hints for the host of a model: whether to ask a person before a call. */
export interface ToolHints {
  /** Whether the tool never changes the workspace. */
  readonly readOnly: boolean
  /** Whether the tool can remove or overwrite files. Every such change can be undone. */
  readonly destructive: boolean
  /** Whether a second call with the same input changes nothing more. */
  readonly idempotent: boolean
}

/** A tool for a model: a name, a description, a schema of its input, and its handler. */
export interface WorkspaceTool {
  /** The name for the model. */
  readonly name: string
  /** What the tool does, for the model. */
  readonly description: string
  /** The JSON schema of the input: an object without further properties. */
  readonly inputSchema: JsonObject
  /** The same schema for frameworks that take one of zod. */
  readonly schema: z.ZodObject
  /** Hints for the host of the model. */
  readonly hints: ToolHints
  /**
   * Calls the tool. An invalid input, and an error of the workspace, give a result with `isError`. An aborted signal
   * rejects with its reason.
   */
  call(input: unknown, call?: ToolCall): Promise<ToolResult>
}
