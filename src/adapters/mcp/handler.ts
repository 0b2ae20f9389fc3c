import {
  createMcpHandler,
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  originValidationResponse,
  type McpHttpHandler,
} from '@modelcontextprotocol/server'
import type { SessionApi } from '../../engine/index.js'
import { given, invalid, isListOf, isText, Shape } from '../../engine/ports.js'
import { workspaceOf, type WorkspaceOptions } from '../tools/parts.js'
import { limits } from './limits.js'
import { serverOf } from './server.js'

/** Options of {@link mcpHandler}. */
export interface McpHandlerOptions extends WorkspaceOptions {
  /**
   * The names of hosts, without ports, that the headers `Host` and `Origin` may have; those of this computer by default.
   * Other requests get 403, so that a web page cannot reach a server on the computer of its reader.
   */
  readonly allowedHosts?: readonly string[]
}

/**
 * Chooses the session of a request, after it has checked the caller. Without a session, the request gets 401. A request
 * shares the forks and the read versions of earlier requests for which the same object was returned.
 */
export type SessionForRequest = (request: Request) => SessionApi | undefined | Promise<SessionApi | undefined>

const optionsShape = new Shape<McpHandlerOptions>({ allowedHosts: true, metadata: true, guards: true })

/**
 * Makes a handler that serves MCP over HTTP, for every runtime with `Request` and `Response`. It has the tools and
 * resources of {@link workspaceServer}.
 *
 * It serves no request on its own account: `sessionFor` checks the caller and returns its session, or undefined. An error
 * that it throws rejects the call.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form.
 *
 * @example
 * import { mcpHandler } from 'forkspace/mcp'
 *
 * const handle = mcpHandler((request) =>
 *   request.headers.get('authorization') === `Bearer ${token}` ? session : undefined,
 * )
 */
export function mcpHandler(
  sessionFor: SessionForRequest,
  options: McpHandlerOptions = {},
): (request: Request) => Promise<Response> {
  if (typeof sessionFor !== 'function') throw invalid('sessionFor', 'must be a function')
  const { allowedHosts = localhostAllowedHostnames(), ...rest } = optionsShape.read(options, 'options')
  if (!isListOf(isText)(allowedHosts)) throw invalid('options.allowedHosts', 'must be a list of names')
  for (const [i, host] of allowedHosts.entries()) {
    if (!/^(?:\[[\da-f:.]+\]|[^:[\]/@*\s]+)$/i.test(host))
      throw invalid(
        `options.allowedHosts[${i}]`,
        `must be a host name such as "app.example", without https://, port and path; it is ${given(host)}`,
      )
  }
  const hosts = [...allowedHosts]
  const handlers = new WeakMap<SessionApi, McpHttpHandler>()
  return async (request) => {
    const refused = hostHeaderValidationResponse(request, hosts) ?? originValidationResponse(request, hosts)
    if (refused !== undefined) return refused
    const session = await sessionFor(request)
    if (session === undefined) return unauthorized()
    let handler = handlers.get(session)
    if (handler === undefined) {
      const workspace = workspaceOf(session, rest)
      handler = createMcpHandler(() => serverOf(workspace, limits.requestContentBytes))
      handlers.set(session, handler)
    }
    return handler.fetch(request)
  }
}

function unauthorized(): Response {
  const error = { code: -32_001, message: 'Unauthorized: this request has no session' }
  return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 401 })
}
