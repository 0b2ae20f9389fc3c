import { given, invalid, Shape, type Engine } from '../../engine/index.js'
import { handleFetch, register, type FetchHandler, type HttpHandlerOptions } from '../http/parts.js'
import { GitRequests } from './handler.js'

/** Options of {@link gitHandler}. */
export interface GitHandlerOptions extends Pick<
  HttpHandlerOptions,
  'prefix' | 'allowedHosts' | 'allowedOrigins' | 'limits' | 'log'
> {
  /** Returns the caller to whom a token belongs, as for `createHttpHandler`. */
  readonly authenticate: HttpHandlerOptions['authenticate']
  /** Whether clients may push to sessions; false by default. */
  readonly push?: boolean
}

/** Serves the sessions of an engine as git repositories, in any server. */
export interface GitHandler extends FetchHandler {}

const optionsShape = new Shape<GitHandlerOptions>({
  prefix: true,
  authenticate: true,
  allowedHosts: true,
  allowedOrigins: true,
  limits: true,
  log: true,
  push: true,
})

/**
 * Serves each session as a git repository, at `/sessions/<session id>.git`. `git clone` and `git fetch` get the newest
 * state as the branch `main`, and with the option `push`, a `git push` is one event of the session. Clients send the
 * token as a password, or as a bearer token.
 *
 * Pass the handler as the option `git` of `createHttpHandler`, or to `serve`, or to `toNodeHandler`, or call its `fetch`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the engine or an option is invalid
 *
 * @example
 * import { serve, staticTokens } from 'forkspace/http'
 * import { gitHandler } from 'forkspace/git'
 *
 * const authenticate = staticTokens({ [token]: { tenant: 'acme', principal: 'ann' } })
 * const server = await serve(gitHandler(engine, { authenticate, push: true }), { port: 8080 })
 */
export function gitHandler(engine: Engine, options: GitHandlerOptions): GitHandler {
  const { push = false, ...rest } = optionsShape.read(options, 'options')
  if (typeof push !== 'boolean') throw invalid('push', `must be true or false; it is ${given(push)}`)
  const inner = new GitRequests(engine, rest, push)
  if (typeof engine?.as !== 'function')
    throw invalid('engine', `must be an engine that openEngine returned; it is ${given(engine)}`)
  return register<GitHandler>({ fetch: (request) => handleFetch(inner, request) }, inner)
}
