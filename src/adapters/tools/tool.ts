import { z } from 'zod'
import type { JsonObject, SessionApi } from '../../engine/index.js'
import { errorResult } from './error-text.js'
import { limits } from './limits.js'
import type { ToolCall, ToolHints, ToolResult, WorkspaceTool } from './tool-types.js'
import type { Workspace } from './workspace.js'

/** The handler's part of a call: the handle whose events carry the marks of the call, the signal, and the call. */
export interface ToolScope {
  readonly session: SessionApi
  readonly signal?: AbortSignal
  readonly call: ToolCall
}

/** The text and the facts of a call that succeeded. */
export interface ToolOutput {
  readonly text: string
  readonly data?: JsonObject
}

interface ToolDefinition<Schema extends z.ZodObject> {
  readonly name: string
  readonly description: string
  readonly schema: Schema
  readonly hints: Partial<ToolHints>
  readonly run: (input: z.output<Schema>, scope: ToolScope) => Promise<ToolOutput>
}

/** Declares a tool of a workspace. */
export function defineTool<Schema extends z.ZodObject>(
  workspace: Workspace,
  { name, description, schema, hints, run }: ToolDefinition<Schema>,
): WorkspaceTool {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: 'input' })
  return {
    name,
    description,
    schema,
    inputSchema: inputSchema as JsonObject,
    hints: { readOnly: false, destructive: false, idempotent: false, ...hints },
    call: async (input, call = {}) => {
      call.signal?.throwIfAborted()
      try {
        const parsed = checked(schema, input)
        if (!parsed.success) return invalidInput(name, parsed.problems)
        const { text, data = {} } = await run(parsed.data, {
          // A handle with marks costs more than a read, and a read causes no event.
          session: hints.readOnly === true ? workspace.current : workspace.sessionFor(call),
          ...(call.signal !== undefined && { signal: call.signal }),
          call,
        })
        return { text: cut(text), isError: false, data }
      } catch (error) {
        call.signal?.throwIfAborted()
        workspace.noteMissing(error)
        return errorResult(error)
      }
    },
  }
}

type Checked<Output> =
  | { readonly success: true; readonly data: Output }
  | { readonly success: false; readonly problems: readonly string[] }

function checked<Schema extends z.ZodObject>(schema: Schema, input: unknown): Checked<z.output<Schema>> {
  try {
    const parsed = schema.safeParse(input)
    if (parsed.success) return parsed
    const problems = parsed.error.issues.map(
      ({ path, message }) => `${path.map(String).join('.') || 'input'}: ${message}`,
    )
    return { success: false, problems }
  } catch {
    // A proxy or a getter threw. Input from JSON has neither.
    return { success: false, problems: ['input: cannot be read; pass plain JSON'] }
  }
}

function invalidInput(name: string, problems: readonly string[]): ToolResult {
  const text = `INVALID_ARGUMENT: the input of ${name} does not fit its schema. ${problems.join('; ')}`
  return {
    text: cut(text),
    isError: true,
    data: { reason: 'INVALID_ARGUMENT', details: { problems: [...problems] } },
  }
}

/** A text within the bound of a result. */
export function cut(text: string): string {
  if (text.length <= limits.resultLength) return text
  const rest = text.length - limits.resultLength
  return `${text.slice(0, limits.resultLength)}\n[${rest} more characters were cut off. Ask for a smaller part.]`
}
