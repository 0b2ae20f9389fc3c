import {
  createSdkMcpServer,
  type McpSdkServerConfigWithInstance,
  type SdkMcpToolDefinition,
} from '@anthropic-ai/claude-agent-sdk'
import { z } from 'zod'
import { EngineError, version } from '../../engine/ports.js'
import { imageField } from './read.js'
import { errorResult, type ToolCall, type ToolResult, type WorkspaceTool } from '../tools/parts.js'

type CallToolResult = Awaited<ReturnType<SdkMcpToolDefinition['handler']>>

/** The name of the server. The SDK calls its tools `mcp__forkspace__Read`. */
export const serverName = 'forkspace'

const instructions =
  'The tools of this server work on a versioned workspace of text files. Absolute paths begin at its root, such as ' +
  '/src/a.ts. Nothing outside of the workspace can be read or changed.'

const listRequest = z.object({ method: z.literal('tools/list') })
const callRequest = z.object({
  method: z.literal('tools/call'),
  params: z.object({ name: z.string(), arguments: z.unknown() }),
})

/** The id of the model's call, as Claude Code passes it to servers. */
const toolUseId = 'claudecode/toolUseId'

/**
 * A server of the SDK in this process. It answers with the schemas of the tools themselves, and passes them inputs as
 * they are: the tool checks them, so that an error has its code.
 */
export function serverOf(
  tools: ReadonlyMap<string, WorkspaceTool>,
  turn: () => string | undefined,
): McpSdkServerConfigWithInstance {
  const config = createSdkMcpServer({ name: serverName, version, instructions, tools: [] })
  const { server } = config.instance
  server.setRequestHandler(listRequest, () => ({ tools: [...tools].map(described) }))
  server.setRequestHandler(callRequest, async ({ params }, { signal, _meta: meta }) => {
    const tool = tools.get(params.name)
    if (tool === undefined) return toMcp(unknownTool(params.name))
    const callId = meta?.[toolUseId]
    const inTurn = turn()
    const call: ToolCall = {
      signal,
      ...(typeof callId === 'string' && { callId }),
      ...(inTurn !== undefined && { turn: inTurn }),
    }
    return toMcp(await tool.call(params.arguments ?? {}, call))
  })
  return config
}

function described([name, { description, inputSchema, hints }]: readonly [string, WorkspaceTool]) {
  return {
    name,
    description,
    inputSchema: { ...inputSchema, type: 'object' as const },
    annotations: { readOnlyHint: hints.readOnly, destructiveHint: hints.destructive, openWorldHint: false },
    _meta: { 'anthropic/alwaysLoad': true },
  }
}

function unknownTool(name: string): ToolResult {
  return errorResult(new EngineError('INVALID_ARGUMENT', `there is no tool ${JSON.stringify(name)}`))
}

/** A command that ends with another code than 0 is an error for the model, as in Claude Code. */
function toMcp({ text, isError, data }: ToolResult): CallToolResult {
  const { exitCode = 0, mimeType, [imageField]: image } = data
  const content: CallToolResult['content'] = [{ type: 'text', text }]
  if (typeof image === 'string' && typeof mimeType === 'string')
    content.push({ type: 'image', data: image, mimeType })
  return { content, isError: isError || exitCode !== 0 }
}
