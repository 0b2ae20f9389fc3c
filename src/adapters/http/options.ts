import { given, invalid, Shape, type LogEntry, type NamesOf } from '../../engine/index.js'
import { isListOf, isText } from '../../engine/ports.js'
import type { Authenticate } from './server/authenticate.js'
import type { FetchHandler } from './server/request-handler.js'
import { defaultHttpLimits, mostServer, type HttpLimits } from './limits.js'

const isTextList = isListOf(isText)

/** Options of {@link createHttpHandler}. */
export interface HttpHandlerOptions {
  /** The start of the path of every route, such as `/api`; '' by default. */
  readonly prefix?: string
  /**
   * Returns the caller to whom the bearer token of a request belongs. {@link staticTokens} creates such a
   * function.
   */
  readonly authenticate: Authenticate
  /**
   * Host names or addresses that are allowed in the `Host` header of a request: `name` for any port,
   * `name:port` for one port, `*` for every host. By default, only loopback names: `localhost`, `127.0.0.1`
   * to `127.255.255.255` and `[::1]`.
   */
  readonly allowedHosts?: readonly string[]
  /** Origins of web pages that may send requests, such as `https://app.example`; none by default. */
  readonly allowedOrigins?: readonly string[]
  /** Serves the sessions as git repositories too: the result of `gitHandler` of `forkspace/git`. Absent by default. */
  readonly git?: FetchHandler
  /** Limits of this handler; {@link HttpLimits} lists the defaults. */
  readonly limits?: Partial<HttpLimits>
  /** Receives defects. Clients see only `INTERNAL`, without details. By default, defects are dropped. */
  readonly log?: (entry: LogEntry & { readonly error: unknown }) => void
}

const optionsShape = new Shape<HttpHandlerOptions>({
  prefix: true,
  authenticate: true,
  allowedHosts: true,
  allowedOrigins: true,
  git: true,
  limits: true,
  log: true,
})

const limitsShape = new Shape<Partial<HttpLimits>>(
  Object.fromEntries(Object.keys(defaultHttpLimits).map((name) => [name, true])) as NamesOf<HttpLimits>,
)

/**
 * Applies the defaults.
 *
 * @throws EngineError `INVALID_ARGUMENT`
 */
export function parseOptions(options: HttpHandlerOptions): Required<
  Omit<HttpHandlerOptions, 'allowedHosts' | 'git'>
> & {
  readonly limits: HttpLimits
  readonly allowedHosts: readonly string[] | undefined
  readonly git: HttpHandlerOptions['git']
} {
  const {
    prefix = '',
    authenticate,
    allowedHosts,
    allowedOrigins = [],
    git,
    limits: givenLimits = {},
    log = () => undefined,
  } = optionsShape.read(options, 'options')
  const limits = limitsShape.readPart(givenLimits, 'limits')
  if (typeof authenticate !== 'function')
    throw invalid(
      'authenticate',
      `must be a function, such as the result of staticTokens(…); it is ${given(authenticate)}`,
    )
  if (typeof log !== 'function') throw invalid('log', `must be a function; it is ${given(log)}`)
  if (typeof prefix !== 'string' || !/^(?:\/[^/?#]+)*$/.test(prefix))
    throw invalid('prefix', `must have the form /path; it is ${given(prefix)}`)
  if (allowedHosts !== undefined && !isTextList(allowedHosts))
    throw invalid(
      'allowedHosts',
      `must be a list of names, such as ["app.example"]; it is ${given(allowedHosts)}`,
    )
  // The guards check the entries of both lists.
  if (!isTextList(allowedOrigins))
    throw invalid(
      'allowedOrigins',
      `must be a list of origins, such as ["https://app.example"]; it is ${given(allowedOrigins)}`,
    )
  for (const [name, limit] of Object.entries(limits)) {
    if (!Number.isSafeInteger(limit) || limit < 0)
      throw invalid(`limits.${name}`, `must be a whole number from 0; it is ${given(limit)}`)
    if (name.endsWith('Ms') && limit > mostServer.ms)
      throw invalid(
        `limits.${name}`,
        `must be at most ${mostServer.ms}, which is a week; it is ${given(limit)}`,
      )
  }
  return {
    prefix,
    authenticate,
    allowedHosts,
    allowedOrigins,
    git,
    limits: { ...defaultHttpLimits, ...limits },
    log,
  }
}
