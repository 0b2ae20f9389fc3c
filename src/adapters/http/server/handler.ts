import { Buffer } from 'node:buffer'
import type { Engine } from '../../../engine/index.js'
import {
  allowHeader,
  answerError,
  answerHealth,
  answerJson,
  answerMethods,
  answerPreflight,
  isStream,
} from './answers.js'
import { callerOf } from './authenticate.js'
import type { Answer, Exchange } from './exchange.js'
import { checkSingle, hostGuard, originGuard } from './guards.js'
import { HttpError, isDefect } from '../http-error.js'
import type { HttpLimits } from '../limits.js'
import { openApiDocument } from '../openapi-document.js'
import { parseOptions, type HttpHandlerOptions } from '../options.js'
import { Dispatcher } from '../operations/dispatcher.js'
import { Routes } from '../operations/routes.js'
import { Scopes, type CallerScope } from './scopes.js'
import { splitTarget } from './target.js'

/** Answers requests of every server API. */
export class Handler {
  readonly limits: HttpLimits
  readonly #options: ReturnType<typeof parseOptions>
  readonly #routes = new Routes()
  readonly #scopes: Scopes
  readonly #dispatcher: Dispatcher
  readonly #checkHost: ReturnType<typeof hostGuard>
  readonly #checkOrigin: ReturnType<typeof originGuard>
  #openapi: object | undefined
  /** The encoded document. All responses share it. */
  #document: Uint8Array | undefined

  constructor(engine: Engine, options: HttpHandlerOptions) {
    this.#options = parseOptions(options)
    const { limits, allowedHosts, allowedOrigins } = this.#options
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
  async answer(exchange: Exchange): Promise<Answer> {
    let answer: Answer
    let cors: Readonly<Record<string, string>> | undefined
    let scope: CallerScope | undefined
    try {
      const { prefix, authenticate } = this.#options
      const { path, query } = splitTarget(exchange.target)
      const local = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : ''
      if (local === '/healthz' && isRead(exchange)) return answerHealth(exchange.method)
      checkSingle(exchange)
      this.#checkHost(exchange)
      cors = this.#checkOrigin(exchange)
      if (cors !== undefined && isPreflight(exchange)) answer = answerPreflight()
      else if (local === '/healthz') answer = withoutRoute(exchange.method, ['GET'])
      else if (local === '/v1/openapi.json' || local === '/openapi.json') answer = this.#describe(exchange)
      else {
        const caller = callerOf(exchange, authenticate)
        scope = this.#scopes.of(caller instanceof Promise ? await caller : caller)
        answer = await this.#route(exchange, scope, local, query)
      }
    } catch (error) {
      if (isDefect(error)) this.report(error)
      answer = answerError(error)
    }
    if (cors !== undefined) answer = { ...answer, headers: { ...answer.headers, ...cors } }
    if (exchange.method === 'HEAD') return { ...answer, headersOnly: true }
    if (answer.length > 0 && !isStream(answer.body)) scope?.scope.usage.sent(answer.length)
    return answer
  }

  #describe(exchange: Exchange): Answer {
    if (isRead(exchange)) return answerJson((this.#document ??= Buffer.from(JSON.stringify(this.openapi))))
    return withoutRoute(exchange.method, ['GET'])
  }

  async #route(exchange: Exchange, scope: CallerScope, path: string, query: string): Promise<Answer> {
    const { method } = exchange
    const match = this.#routes.find(method === 'HEAD' ? 'GET' : method, path)
    if (match === undefined || (method === 'HEAD' && match.route.isStream))
      return withoutRoute(method, this.#routes.methods(path))
    return this.#dispatcher.dispatch(exchange, scope, match, query)
  }

  /** Logs an error. */
  report(error: unknown): void {
    try {
      this.#options.log({ level: 'error', message: 'a request failed', details: {}, error })
    } catch {
      // There is no other place to report an error of the log.
    }
  }
}

function isRead({ method }: Exchange): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Whether it is a preflight request, which a browser sends without a token before a request of a web page. */
function isPreflight(exchange: Exchange): boolean {
  return exchange.method === 'OPTIONS' && exchange.header('access-control-request-method') !== undefined
}

function withoutRoute(method: string, methods: readonly string[]): Answer {
  if (methods.length === 0) throw new HttpError('ROUTE_NOT_FOUND', 'there is no such route')
  if (method === 'OPTIONS') return answerMethods(methods)
  throw new HttpError(
    'METHOD_NOT_ALLOWED',
    'the route has no such method',
    {},
    { allow: allowHeader(methods) },
  )
}
