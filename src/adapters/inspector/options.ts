import { given, invalid, Shape, type LogEntry } from '../../engine/index.js'
import { isListOf, isText } from '../../engine/ports.js'
import type { Authenticate } from '../http/index.js'

const isTextList = isListOf(isText)

/** Options of {@link inspector}. */
export interface InspectorOptions {
  /** Returns the caller to whom the token of a request belongs, as for `createHttpHandler`. */
  readonly authenticate: Authenticate
  /**
   * true: the page can also restore states, undo and redo changes, merge forks, and decide approvals. By default it
   * only reads, and the server refuses everything else.
   */
  readonly write?: boolean
  /**
   * true: the page can check the store with `engine.check()`, which changes nothing. A check covers all tenants, and
   * its findings name sessions and paths of each of them, so allow it only if every caller may see these. By default
   * the page cannot. A page of a running server cannot either.
   */
  readonly check?: boolean
  /** The path below which the page is served, such as `/inspector`; '' by default. */
  readonly prefix?: string
  /**
   * Host names or addresses that are allowed in the `Host` header of a request, as for `createHttpHandler`. By default,
   * only loopback names.
   */
  readonly allowedHosts?: readonly string[]
  /** Receives defects. The page shows only `INTERNAL`. By default, defects are dropped. */
  readonly log?: (entry: LogEntry & { readonly error: unknown }) => void
}

/** A running server to look at, instead of an engine in this process. */
export interface InspectedServer {
  /** URL of the server, with its prefix, without `/v1`. */
  readonly baseUrl: string
  /** A token of the server. The page does not get it. */
  readonly token: string
}

const optionsShape = new Shape<InspectorOptions>({
  authenticate: true,
  write: true,
  check: true,
  prefix: true,
  allowedHosts: true,
  log: true,
})

const serverShape = new Shape<InspectedServer>({ baseUrl: true, token: true })

/** The options with their defaults. */
export interface ParsedOptions {
  readonly authenticate: Authenticate
  readonly write: boolean
  readonly check: boolean
  readonly prefix: string
  readonly allowedHosts: readonly string[] | undefined
  readonly log: NonNullable<InspectorOptions['log']>
}

/** @throws EngineError `INVALID_ARGUMENT` */
export function parseOptions(options: InspectorOptions): ParsedOptions {
  const {
    authenticate,
    write = false,
    check = false,
    prefix = '',
    allowedHosts,
    log = () => undefined,
  } = optionsShape.read(options, 'options')
  if (typeof authenticate !== 'function')
    throw invalid(
      'authenticate',
      `must be a function, such as the result of staticTokens(…) of forkspace/http; it is ${given(authenticate)}`,
    )
  if (typeof write !== 'boolean') throw invalid('write', `must be true or false; it is ${given(write)}`)
  if (typeof check !== 'boolean') throw invalid('check', `must be true or false; it is ${given(check)}`)
  if (typeof prefix !== 'string' || !/^(?:\/[\w.~-]+)*$/.test(prefix))
    throw invalid('prefix', `must have the form /path; it is ${given(prefix)}`)
  if (allowedHosts !== undefined && !isTextList(allowedHosts))
    throw invalid(
      'allowedHosts',
      `must be a list of names, such as ["app.example"]; it is ${given(allowedHosts)}`,
    )
  if (typeof log !== 'function') throw invalid('log', `must be a function; it is ${given(log)}`)
  return { authenticate, write, check, prefix, allowedHosts, log }
}

/** @throws EngineError `INVALID_ARGUMENT` */
export function parseServer(server: InspectedServer): InspectedServer {
  const { baseUrl, token } = serverShape.readPart(server, 'engine')
  if (typeof baseUrl !== 'string' || !/^https?:\/\/[^/?#]+[^?#]*$/i.test(baseUrl) || !URL.canParse(baseUrl))
    throw invalid('engine.baseUrl', `must be an http or https URL; it is ${given(baseUrl)}`)
  // A token is a secret, so the error does not show it.
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
    throw invalid('engine.token', 'must be a token of the server, which consists of visible ASCII characters')
  return { baseUrl: baseUrl.replace(/\/+$/, ''), token }
}
