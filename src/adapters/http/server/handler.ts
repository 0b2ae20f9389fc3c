import { Buffer } from 'node:buffer'
import type { Engine } from '../../../engine/index.js'
import { attempt } from '../../../engine/ports.js'
import {
  allowHeader,
  errorResponse,
  healthResponse,
  jsonResponse,
  methodsResponse,
  preflightResponse,
  isStream,
} from './responses.js'
import { callerOf } from './authenticate.js'
import type { HttpResponse, HttpRequest } from './http-messages.js'
import { checkSingle, hostGuard, originGuard } from './guards.js'
import { HttpError, isDefect } from '../http-error.js'
import type { HttpLimits } from '../limits.js'
import { openApiDocument } from '../openapi-document.js'
import { parseOptions, type HttpHandlerOptions } from '../options.js'
import { Dispatcher } from '../operations/dispatcher.js'
import { Routes } from '../operations/routes.js'
import { pathHandlerOf, type PathHandler } from './request-handler.js'
import { Scopes, type CallerScope } from './scopes.js'
import { splitTarget } from './target.js'

/** Handles the requests of every server API. */
export class Handler {
  readonly limits: HttpLimits
  readonly #options: ReturnType<typeof parseOptions>
  readonly #routes = new Routes()
  readonly #scopes: Scopes
  readonly #dispatcher: Dispatcher
  readonly #git: PathHandler | undefined
  readonly #checkHost: ReturnType<typeof hostGuard>
  readonly #checkOrigin: ReturnType<typeof originGuard>
  #openapi: object | undefined
  /** The encoded document. All responses share it. */
  #document: Uint8Array | undefined

  constructor(engine: Engine, options: HttpHandlerOptions) {
    this.#options = parseOptions(options)
    const { limits, allowedHosts, allowedOrigins } = this.#options
    this.#git = pathHandlerOf(this.#options.git)
    this.limits = limits
    this.#dispatcher = new Dispatcher(limits)
    this.#scopes = new Scopes(engine)
    this.#checkHost = hostGuard(allowedHosts)
    this.#checkOrigin = originGuard(allowedOrigins)
  }

  get openapi(): object {
    return (this.#openapi ??= openApiDocument(this.#options.prefix))
  }

  /** Never throws. */
  async handle(httpRequest: HttpRequest): Promise<HttpResponse> {
    const { path, query } = splitTarget(httpRequest.target)
    if (this.#git?.serves(path) === true) return this.#git.handle(httpRequest)
    let httpResponse: HttpResponse
    let cors: Readonly<Record<string, string>> | undefined
    let scope: CallerScope | undefined
    try {
      const { prefix, authenticate } = this.#options
      const local = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : ''
      if (local === '/healthz' && isRead(httpRequest)) return healthResponse(httpRequest.method)
      checkSingle(httpRequest)
      this.#checkHost(httpRequest)
      cors = this.#checkOrigin(httpRequest)
      if (cors !== undefined && isPreflight(httpRequest)) httpResponse = preflightResponse()
      else if (local === '/healthz') httpResponse = withoutRoute(httpRequest.method, ['GET'])
      else if (local === '/v1/openapi.json' || local === '/openapi.json')
        httpResponse = this.#describe(httpRequest)
      else {
        const caller = callerOf(httpRequest, authenticate)
        scope = this.#scopes.of(caller instanceof Promise ? await caller : caller)
        httpResponse = await this.#route(httpRequest, scope, local, query)
      }
    } catch (error) {
      if (isDefect(error)) this.report(error)
      httpResponse = errorResponse(error)
    }
    if (cors !== undefined) httpResponse = { ...httpResponse, headers: { ...httpResponse.headers, ...cors } }
    if (httpRequest.method === 'HEAD') return { ...httpResponse, headersOnly: true }
    if (httpResponse.length > 0 && !isStream(httpResponse.body)) scope?.scope.usage.sent(httpResponse.length)
    return httpResponse
  }

  #describe(httpRequest: HttpRequest): HttpResponse {
    if (isRead(httpRequest))
      return jsonResponse((this.#document ??= Buffer.from(JSON.stringify(this.openapi))))
    return withoutRoute(httpRequest.method, ['GET'])
  }

  async #route(
    httpRequest: HttpRequest,
    scope: CallerScope,
    path: string,
    query: string,
  ): Promise<HttpResponse> {
    const { method } = httpRequest
    const match = this.#routes.find(method === 'HEAD' ? 'GET' : method, path)
    if (match === undefined || (method === 'HEAD' && match.route.isStream))
      return withoutRoute(method, this.#routes.methods(path))
    return this.#dispatcher.dispatch(httpRequest, scope, match, query)
  }

  /** Logs an error. */
  report(error: unknown): void {
    attempt(() => this.#options.log({ level: 'error', message: 'a request failed', details: {}, error }))
  }
}

function isRead({ method }: HttpRequest): boolean {
  return method === 'GET' || method === 'HEAD'
}

/**
 * Whether the request is a CORS preflight request. A browser sends it without a token, before the request of
 * a web page.
 */
function isPreflight(httpRequest: HttpRequest): boolean {
  return httpRequest.method === 'OPTIONS' && httpRequest.header('access-control-request-method') !== undefined
}

function withoutRoute(method: string, methods: readonly string[]): HttpResponse {
  if (methods.length === 0) throw new HttpError('ROUTE_NOT_FOUND', 'the path does not exist')
  if (method === 'OPTIONS') return methodsResponse(methods)
  throw new HttpError(
    'METHOD_NOT_ALLOWED',
    'the path does not have this method',
    {},
    { allow: allowHeader(methods) },
  )
}
