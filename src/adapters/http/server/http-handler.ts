import { given, invalid, type Engine } from '../../../engine/index.js'
import { answerRequest } from './fetch-door.js'
import { Handler } from './handler.js'
import type { HttpHandlerOptions } from '../options.js'

/** The interface over HTTP, for any server. */
export interface HttpHandler {
  /** Never rejects. What `request.signal` aborts is left: a wait for a lock, a stream. */
  readonly fetch: (request: Request) => Promise<Response>
  /** The contract, as OpenAPI 3.1; served at `/v1/openapi.json` and `/openapi.json`. */
  readonly openapi: object
}

const handlers = new WeakMap<HttpHandler, Handler>()

/**
 * Serves an engine over HTTP: every operation of the interface, for callers that `authenticate` knows.
 * INVALID_ARGUMENT for options that make no sense.
 *
 * Several things can serve it: `serve`, any server of node:http by `toNodeHandler`, and what knows the Fetch API by
 * `fetch`. The last of these costs several times the CPU of the others, and sees URLs only after their dot segments
 * were taken out of them.
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
    throw invalid('engine', `must be an engine, as openEngine gives it; it is ${given(engine)}`)
  const handler: HttpHandler = {
    fetch: (request) => answerRequest(inner, request),
    get openapi() {
      return inner.openapi
    },
  }
  handlers.set(handler, inner)
  return handler
}

/** INVALID_ARGUMENT for what {@link createHttpHandler} did not make. */
export function innerOf(handler: HttpHandler): Handler {
  const inner = handlers.get(handler)
  if (inner !== undefined) return inner
  throw invalid('handler', `must come from createHttpHandler; it is ${given(handler)}`)
}
