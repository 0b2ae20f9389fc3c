import { given, invalid, Shape, type SessionApi } from '../../engine/index.js'
import { staticTokens } from '../http/index.js'
import {
  handleFetch,
  parseOptions,
  register,
  type FetchHandler,
  type HttpHandlerOptions,
} from '../http/parts.js'
import { WebdavRequests } from './handler.js'

/** Options of {@link webdavHandler}. */
export interface WebdavHandlerOptions extends Pick<
  HttpHandlerOptions,
  'prefix' | 'allowedHosts' | 'limits' | 'log'
> {
  /** The secret that clients send, as a password with any user name, or as a bearer token. */
  readonly token: string
  /** true: clients may change the files. By default they only read, and the server refuses everything else. */
  readonly write?: boolean
}

/** Serves the files of one session over WebDAV, in any server. */
export interface WebdavHandler extends FetchHandler {}

const optionsShape = new Shape<WebdavHandlerOptions>({
  token: true,
  write: true,
  prefix: true,
  allowedHosts: true,
  limits: true,
  log: true,
})

/**
 * Serves the files of a session over WebDAV, so that programs of the operating system can mount them. Each change of a
 * client is a change of the session at once.
 *
 * Pass the handler to `serve` or to `toNodeHandler`, or call its `fetch`. HTTP does not encrypt the token: listen on
 * loopback, and put a proxy with TLS in front for other hosts.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the session or an option is invalid
 *
 * @example
 * import { serve } from 'forkspace/http'
 * import { webdavHandler } from 'forkspace/webdav'
 *
 * const server = await serve(webdavHandler(session, { token, write: true }))
 * console.log(`mount.davfs ${server.url} ./mount`)
 */
export function webdavHandler(
  session: Pick<SessionApi, 'files'>,
  options: WebdavHandlerOptions,
): WebdavHandler {
  const { token, write = false, ...rest } = optionsShape.read(options, 'options')
  // A token is a secret, so the error does not show it.
  if (typeof token !== 'string' || token === '') throw invalid('token', 'must be a string that is not empty')
  if (typeof write !== 'boolean') throw invalid('write', `must be true or false; it is ${given(write)}`)
  const authenticate = staticTokens({ [token]: { tenant: 'webdav', principal: 'webdav' } })
  const parsed = parseOptions({ ...rest, authenticate })
  if (typeof session?.files?.stat !== 'function')
    throw invalid('session', `must be a session of an engine or a server; it is ${given(session)}`)
  const inner = new WebdavRequests(session.files, parsed, write)
  return register<WebdavHandler>({ fetch: (request) => handleFetch(inner, request) }, inner)
}
