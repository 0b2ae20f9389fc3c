import {
  McpServer,
  type CallToolResult,
  type ContentBlock,
  type StandardSchemaWithJSON,
  type ToolAnnotations,
} from '@modelcontextprotocol/server'
import type { JsonObject } from '../../engine/index.js'
import { version } from '../../engine/ports.js'
import {
  applyPatchTool,
  errorResult,
  globTool,
  grepTool,
  versionTools,
  type ToolHints,
  type ToolResult,
  type Workspace,
  type WorkspaceTool,
} from '../tools/parts.js'
import { checkGlobs } from './check-globs.js'
import { createDirectoryTool, editFileTool, moveFileTool, writeFileTool } from './change-tools.js'
import {
  allowedDirectoriesTool,
  directoryTreeTool,
  fileInfoTool,
  listDirectoryTool,
  listSizesTool,
  searchFilesTool,
} from './listing-tools.js'
import { ContentReader } from './content-reader.js'
import { limits } from './limits.js'
import { withProgress } from './progress.js'
import { mediaField, readMediaTool, readMultipleTool, readTextTool } from './read-tools.js'
import { addResources, uriOf } from './resources.js'
import { teamTools } from './team-tools.js'

/**
 * A server for one connection, or one request, of an agent with a workspace. Its answers hold at most `contentBytes` of
 * media files and resources together.
 */
export function serverOf(workspace: Workspace, contentBytes = Infinity): McpServer {
  const contents = new ContentReader(contentBytes)
  const server = new McpServer(
    { name: 'forkspace', version },
    // Both lists stay the same, as far as clients are told.
    { capabilities: { tools: { listChanged: false }, resources: { listChanged: false } } },
  )
  for (const tool of toolsOf(workspace, contents)) addTool(server, tool)
  addResources(server, workspace, contents)
  return server
}

function toolsOf(workspace: Workspace, contents: ContentReader): WorkspaceTool[] {
  return [
    readTextTool(workspace),
    readMediaTool(workspace, contents),
    readMultipleTool(workspace),
    writeFileTool(workspace),
    editFileTool(workspace),
    createDirectoryTool(workspace),
    listDirectoryTool(workspace),
    listSizesTool(workspace),
    directoryTreeTool(workspace),
    moveFileTool(workspace),
    searchFilesTool(workspace),
    fileInfoTool(workspace),
    allowedDirectoriesTool(workspace),
    applyPatchTool(workspace),
    globTool(workspace),
    grepTool(workspace),
    ...versionTools(workspace),
    ...teamTools(workspace),
  ]
}

function addTool(server: McpServer, tool: WorkspaceTool): void {
  const { name, description, inputSchema, hints } = tool
  const config = { description, inputSchema: unchecked(inputSchema), annotations: annotationsOf(hints) }
  server.registerTool(name, config, (input, context) =>
    withProgress(context, async () => {
      const { id, signal } = context.mcpReq
      try {
        checkGlobs(name, input)
      } catch (error) {
        return toMcp(errorResult(error))
      }
      return toMcp(await tool.call(input, { callId: String(id), signal }))
    }),
  )
}

/** A schema that clients are shown. The tool itself checks the input, so that the error has its code. */
function unchecked(schema: JsonObject): StandardSchemaWithJSON {
  const json = (): JsonObject => ({ ...schema })
  return {
    '~standard': {
      version: 1,
      vendor: 'forkspace',
      validate: (value) => ({ value }),
      jsonSchema: { input: json, output: json },
    },
  }
}

function annotationsOf({ readOnly, destructive, idempotent }: ToolHints): ToolAnnotations {
  return {
    readOnlyHint: readOnly,
    destructiveHint: destructive,
    idempotentHint: idempotent,
    openWorldHint: false,
  }
}

function toMcp({ text, isError, data }: ToolResult): CallToolResult {
  const { [mediaField]: base64, ...structuredContent } = data
  const content: ContentBlock[] = [{ type: 'text', text }]
  const { path, mimeType } = structuredContent
  if (typeof base64 === 'string' && typeof path === 'string' && typeof mimeType === 'string')
    content.push(mediaBlock(path, { mimeType, data: base64 }))
  return { content, structuredContent: bounded(structuredContent), ...(isError && { isError }) }
}

/** The facts of a result. If they are too long, only those that are no lists or objects, with `isCut`. */
function bounded(facts: JsonObject): JsonObject {
  if (JSON.stringify(facts).length <= limits.structuredLength) return facts
  const short = Object.entries(facts).filter(([, fact]) => typeof fact !== 'object')
  return { ...Object.fromEntries(short), isCut: true }
}

function mediaBlock(
  path: string,
  { mimeType, data }: { readonly mimeType: string; readonly data: string },
): ContentBlock {
  if (mimeType.startsWith('image/')) return { type: 'image', data, mimeType }
  if (mimeType.startsWith('audio/')) return { type: 'audio', data, mimeType }
  return { type: 'resource', resource: { uri: uriOf(path), mimeType, blob: data } }
}
