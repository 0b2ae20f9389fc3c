import { EngineError, given, invalid, type Engine } from '../../engine/index.js'
import { version } from '../../engine/ports.js'
import { createHttpHandler } from '../http/index.js'
import { callerOf, errorResponse, hostGuard, HttpError, isDefect, Routes } from '../http/parts.js'
import { readOperations, unusedCapabilities, writeCapabilities, writeOperations } from './operations.js'
import { parseOptions, parseServer, type InspectedServer, type InspectorOptions } from './options.js'
import { pageFile } from './page-files.js'
import { passOn } from './pass-on.js'
import { withPrincipals } from './principals.js'

/** Serves the page and its API. It never rejects. */
export type Inspector = (request: Request) => Promise<Response>

/** The request of each response that is a stream: the signal of a garbage-collected request never aborts. */
const requestOf = new WeakMap<ReadableStream, Request>()

/** An engine of this process. */
type Inspected = Pick<Engine, 'as'>

/** Carries out an operation that is allowed. `eventsOf` is the id of the session whose events it lists. */
type Backend = (request: Request, path: string, eventsOf?: string) => Promise<Response>

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const pageHeaders = {
  'cache-control': 'no-cache',
  'content-security-policy': policy,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/**
 * Serves a page to look at the sessions of an engine, or of a running server. It is a handler of the Fetch API.
 *
 * The page needs a token that `authenticate` accepts. Open it with the token in the fragment of its URL, which browsers
 * do not send: `http://127.0.0.1:8080/#token=…`. Without the option `write`, the handler carries out reading operations
 * only, on handles without the capabilities to change anything.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the engine, the server or an option is invalid
 *
 * @example
 * const handle = inspector(engine, {
 *   authenticate: staticTokens({ [token]: { tenant: 'acme', principal: 'ann' } }),
 * })
 * const response = await handle(new Request('http://localhost/'))
 */
export function inspector(
  engine: Pick<Engine, 'as'> | InspectedServer,
  options: InspectorOptions,
): Inspector {
  const { prefix, write, allowedHosts, ...rest } = parseOptions(options)
  const backend = isEngine(engine)
    ? inProcess(engine, write, { ...rest, allowedHosts })
    : onServer(parseServer(engine), rest)
  const routes = new Routes()
  const checkHost = hostGuard(allowedHosts)

  const answer = async (request: Request): Promise<Response> => {
    const url = new URL(request.url)
    checkHost({
      target: url.pathname,
      header: (name) => request.headers.get(name) ?? (name === 'host' ? url.host : undefined),
    })
    if (url.pathname === prefix && prefix !== '')
      return new Response(null, { status: 308, headers: { ...pageHeaders, location: `${prefix}/` } })
    const path = url.pathname.startsWith(`${prefix}/`) ? url.pathname.slice(prefix.length) : ''
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    const file = isRead ? await pageFile(path) : undefined
    if (file !== undefined) {
      const body = request.method === 'HEAD' ? null : new Uint8Array(file.content)
      return new Response(body, { headers: { ...pageHeaders, 'content-type': file.type } })
    }
    checkOrigin(request, url)
    if (path === '/inspector.json' && isRead) {
      const known = await backend(withoutBody(request), '/v1/sessions?pageSize=1')
      if (!known.ok) return known
      await known.body?.cancel()
      return Response.json(
        { version, write, target: isEngine(engine) ? 'engine' : 'server' },
        { headers: pageHeaders },
      )
    }
    const found = routes.find(request.method === 'HEAD' ? 'GET' : request.method, path)
    const operation = found?.route
    // Contents of any size are read in ranges by the same operation.
    if (operation === undefined || (operation.content !== undefined && operation.content !== 'readContent'))
      throw new HttpError('ROUTE_NOT_FOUND', 'the path does not exist')
    const { name } = operation
    if (!readOperations.has(name) && !(write && writeOperations.has(name)))
      throw new EngineError('PERMISSION_DENIED', refusal(name), { action: name })
    const eventsOf =
      name === 'listEvents' && request.method === 'GET' ? found?.parameters['sessionId'] : undefined
    return backend(request, `${path}${url.search}`, eventsOf)
  }
  const refusal = (name: string): string =>
    writeOperations.has(name as never)
      ? `${name} is refused, because the inspector was opened for reading: open it with --write, or the option write`
      : `the inspector does not serve ${name}`

  return async (request) => {
    try {
      const response = await answer(request)
      if (response.body !== null) requestOf.set(response.body, request)
      return response
    } catch (error) {
      if (isDefect(error))
        rest.log({ level: 'error', message: 'a request of the inspector failed', details: {}, error })
      const { status, headers, body } = errorResponse(error)
      return new Response(body as string, { status, headers: { ...pageHeaders, ...headers } })
    }
  }
}

function isEngine(engine: Inspected | InspectedServer): engine is Inspected {
  if (typeof engine !== 'object' || engine === null)
    throw invalid(
      'engine',
      `must be an engine that openEngine returned, or { baseUrl, token }; it is ${given(engine)}`,
    )
  return typeof (engine as Inspected).as === 'function'
}

/** An engine of this process: its handles have no more rights than the page needs. */
function inProcess(
  engine: Inspected,
  write: boolean,
  {
    allowedHosts,
    ...rest
  }: Pick<InspectorOptions, 'authenticate' | 'log'> & {
    readonly allowedHosts: readonly string[] | undefined
  },
): Backend {
  const without = write ? unusedCapabilities : [...unusedCapabilities, ...writeCapabilities]
  const narrowed = {
    as: (caller: Parameters<Engine['as']>[0]) => engine.as(caller).narrow({ without }),
  } satisfies Inspected
  const { fetch } = createHttpHandler(narrowed as Engine, {
    ...rest,
    ...(allowedHosts !== undefined && { allowedHosts }),
  })
  return async (request, path, eventsOf) => {
    const headers = new Headers(request.headers)
    // The origin was compared with the host already.
    headers.delete('origin')
    if (!headers.has('host')) headers.set('host', new URL(request.url).host)
    const url = new URL(path, request.url)
    const response = await fetch(copyOf(request, url.href, headers))
    if (eventsOf === undefined || !response.ok) return response
    const header = (name: string): string | undefined => headers.get(name) ?? undefined
    const caller = await callerOf({ header, request: () => request }, rest.authenticate)
    return withPrincipals(response, {
      engine: narrowed.as(caller),
      sessionId: eventsOf,
      query: url.searchParams,
    })
  }
}

function onServer(
  server: InspectedServer,
  { authenticate }: Pick<InspectorOptions, 'authenticate'>,
): Backend {
  return (request, path) => passOn(server, authenticate, request, path)
}

function withoutBody(request: Request): Request {
  return new Request(request.url, { headers: request.headers, signal: request.signal })
}

/** The same request to another URL. */
export function copyOf({ method, body, signal }: Request, url: string, headers: Headers): Request {
  return new Request(url, {
    method,
    headers,
    signal,
    ...(body !== null && { body, duplex: 'half' }),
  })
}

/** Only the page itself may send requests. A browser adds the header `origin` to each one that can change something. */
function checkOrigin(request: Request, url: URL): void {
  const origin = request.headers.get('origin')
  if (origin === null) return
  const host = request.headers.get('host') ?? url.host
  if (origin.replace(/^https?:\/\//i, '').toLowerCase() !== host.toLowerCase())
    throw new HttpError('ORIGIN_NOT_ALLOWED', 'the request is not from the page of the inspector')
}
