/**
 * An MCP server for a session: its files, versions, forks and locks as tools and resources.
 *
 * @module
 */
import type { McpServer } from '@modelcontextprotocol/server'
import type { SessionApi } from '../../engine/index.js'
import { workspaceOf, type WorkspaceOptions } from '../tools/parts.js'
import { serverOf } from './server.js'

export { mcpHandler, type McpHandlerOptions, type SessionForRequest } from './handler.js'

/**
 * Makes an MCP server for one connection of one agent. Connect it to a transport of `@modelcontextprotocol/server`.
 *
 * - The tools of the reference filesystem server, under the same names and with the same inputs.
 * - `apply_patch`, `glob` and `grep`; `checkpoint`, `restore`, `undo`, `redo`, `diff` and `history`; `fork`,
 *   `switch_workspace`, `list_workspaces`, `delete_fork` and `merge`; `lock`, `unlock`, `publish` and `request_approval`.
 * - The files as resources, such as `forkspace:///src/a.ts`.
 *
 * Guarantees
 * - A call that changes files is one event, with the id of the request in `details.metadata.callId`.
 * - A call that fails changes nothing. Its result has `isError`, a text that says what to do, and `reason` and `details`
 *   as structured content.
 * - An edit must match exactly once. A write to a file that changed since this server read it fails with HASH_MISMATCH.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown, or the session is none.
 *
 * @example
 * import { serveStdio } from '@modelcontextprotocol/server/stdio'
 * import { workspaceServer } from 'forkspace/mcp'
 *
 * const connection = serveStdio(() => workspaceServer(session))
 * await connection.close()
 */
export function workspaceServer(session: SessionApi, options: WorkspaceOptions = {}): McpServer {
  return serverOf(workspaceOf(session, options))
}
