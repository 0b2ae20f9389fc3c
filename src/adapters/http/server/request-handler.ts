import { given, invalid } from '../../../engine/index.js'
import type { HttpLimits } from '../limits.js'
import type { HttpRequest, HttpResponse } from './http-messages.js'

/** Answers requests, whatever server API receives them. */
export interface RequestHandler {
  readonly limits: HttpLimits
  /** Never throws. */
  handle(httpRequest: HttpRequest): Promise<HttpResponse>
  /** Logs an error. */
  report(error: unknown): void
}

/** A handler of some paths, to which the handler of all other paths passes requests. */
export interface PathHandler extends RequestHandler {
  serves(path: string): boolean
}

/** A handler in the form that servers of the Fetch API take. */
export interface FetchHandler {
  /** Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>
}

const handlers = new WeakMap<object, RequestHandler>()

/** Makes a handler that `serve` and `toNodeHandler` take. */
export function register<Public extends FetchHandler>(handler: Public, inner: RequestHandler): Public {
  handlers.set(handler, inner)
  return handler
}

/** @throws EngineError `INVALID_ARGUMENT` if this package did not create the handler. */
export function innerOf(handler: FetchHandler): RequestHandler {
  const inner = handlers.get(handler)
  if (inner !== undefined) return inner
  throw invalid(
    'handler',
    `must be a handler, such as createHttpHandler(engine, options); it is ${given(handler)}`,
  )
}

/** @throws EngineError `INVALID_ARGUMENT` if `gitHandler` did not create the handler. */
export function pathHandlerOf(handler: FetchHandler | undefined): PathHandler | undefined {
  if (handler === undefined) return undefined
  const inner = typeof handler === 'object' && handler !== null ? handlers.get(handler) : undefined
  if (inner !== undefined && 'serves' in inner) return inner as PathHandler
  throw invalid('git', `must be a handler that gitHandler returned; it is ${given(handler)}`)
}
