import { given, invalid, type Engine } from '../../../engine/index.js'
import { handleFetch } from './fetch-adapter.js'
import { Handler } from './handler.js'
import { register } from './request-handler.js'
import type { HttpHandlerOptions } from '../options.js'

/** Serves the HTTP API of an engine in any server. */
export interface HttpHandler {
  /** Never rejects. If `request.signal` aborts, a wait for a lock or a stream ends. */
  readonly fetch: (request: Request) => Promise<Response>
  /** The OpenAPI 3.1 document. The handler serves it at `/v1/openapi.json` and `/openapi.json`. */
  readonly openapi: object
}

/**
 * Serves all operations of an engine over HTTP, to callers that `authenticate` accepts.
 *
 * Pass the handler to `serve`, or to `toNodeHandler` for a server of node:http, or call its `fetch` in a
 * server that uses the Fetch API. `fetch` takes several times the CPU time of the others. Its URLs have their
 * dot segments already resolved.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the engine or an option is invalid
 *
 * @example
 * const handler = createHttpHandler(engine, {
 *   authenticate: staticTokens({ [token]: { tenant: 'acme', principal: 'ann' } }),
 * })
 * const server = await serve(handler, { port: 8080 })
 */
export function createHttpHandler(engine: Engine, options: HttpHandlerOptions): HttpHandler {
  const inner = new Handler(engine, options)
  if (typeof engine?.as !== 'function')
    throw invalid('engine', `must be an engine that openEngine returned; it is ${given(engine)}`)
  return register<HttpHandler>(
    {
      fetch: (request) => handleFetch(inner, request),
      get openapi() {
        return inner.openapi
      },
    },
    inner,
  )
}
