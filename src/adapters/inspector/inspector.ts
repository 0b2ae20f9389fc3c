import { EngineError, given, invalid, type Capability, type Engine } from '../../engine/index.js'
import { attempt, version } from '../../engine/ports.js'
import { createHttpHandler } from '../http/index.js'
import { callerOf, errorResponse, hostGuard, HttpError, isDefect, Routes } from '../http/parts.js'
import { readOperations, unusedCapabilities, writeCapabilities, writeOperations } from './operations.js'
import { parseOptions, parseServer, type InspectedServer, type InspectorOptions } from './options.js'
import { previewOf } from './merge-preview.js'
import { pageFile } from './page-files.js'
import { passOn } from './pass-on.js'
import { withPrincipals } from './principals.js'
import { parseReadData, StoreCheck } from './store-check.js'

/** Serves the page and its API. It never rejects. */
export type Inspector = (request: Request) => Promise<Response>

/** The request of each response that is a stream: the signal of a garbage-collected request never aborts. */
const requestOf = new WeakMap<ReadableStream, Request>()

/** An engine of this process. */
type Inspected = Pick<Engine, 'as'> & Partial<Pick<Engine, 'check'>>

/** Carries out operations that are allowed. */
interface Backend {
  /** `eventsOf` is the id of the session whose events the operation lists. */
  read(request: Request, path: string, eventsOf?: string): Promise<Response>
  /** Carries out a preview of {@link previewOf}. */
  preview(request: Request, path: string): Promise<Response>
}

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
  engine: (Pick<Engine, 'as'> & Partial<Pick<Engine, 'check'>>) | InspectedServer,
  options: InspectorOptions,
): Inspector {
  const { prefix, write, check, allowedHosts, ...rest } = parseOptions(options)
  const backend = isEngine(engine)
    ? inProcess(engine, write, { ...rest, allowedHosts })
    : onServer(parseServer(engine), rest)
  const onError = (error: unknown): void => {
    if (isDefect(error))
      attempt(() =>
        rest.log({ level: 'error', message: 'a request of the inspector failed', details: {}, error }),
      )
  }
  const storeCheck = check ? new StoreCheck({ check: checkOf(engine), onError }) : undefined
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
      const known = await backend.read(withoutBody(request), '/v1/sessions?pageSize=1')
      if (!known.ok) return known
      await known.body?.cancel()
      return Response.json(
        { version, write, check, target: isEngine(engine) ? 'engine' : 'server' },
        { headers: pageHeaders },
      )
    }
    if (path === '/check' && request.method === 'POST') {
      await authenticated(request)
      const readData = parseReadData(url.searchParams)
      if (storeCheck === undefined)
        throw new EngineError('PERMISSION_DENIED', noCheck(isEngine(engine)), { action: 'check' })
      const response = storeCheck.respond(request, readData)
      for (const [header, value] of Object.entries(pageHeaders)) response.headers.set(header, value)
      return response
    }
    const found = routes.find(request.method === 'HEAD' ? 'GET' : request.method, path)
    const operation = found?.route
    // Contents of any size are read in ranges by the same operation.
    if (operation === undefined || (operation.content !== undefined && operation.content !== 'readContent'))
      throw new HttpError('ROUTE_NOT_FOUND', 'the path does not exist')
    const { name } = operation
    if (!readOperations.has(name) && !(write && writeOperations.has(name))) {
      const preview = name === 'mergeSession' ? await previewBy(request) : undefined
      if (preview === undefined) throw new EngineError('PERMISSION_DENIED', refusal(name), { action: name })
      return backend.preview(preview, path)
    }
    const eventsOf =
      name === 'listEvents' && request.method === 'GET' ? found?.parameters['sessionId'] : undefined
    return backend.read(request, `${path}${url.search}`, eventsOf)
  }
  const authenticated = async (request: Request): Promise<void> => {
    const header = (name: string): string | undefined => request.headers.get(name) ?? undefined
    await callerOf({ header, request: () => request }, rest.authenticate)
  }
  /** The preview for which a known caller asks. */
  const previewBy = async (request: Request): Promise<Request | undefined> => {
    await authenticated(request)
    return previewOf(request)
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
      onError(error)
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
  const narrowed = (without: readonly Capability[]): Inspected => ({
    as: (caller) => engine.as(caller).narrow({ without }),
  })
  const handlerOf = (inspected: Inspected): ((request: Request, path: string) => Promise<Response>) => {
    const { fetch } = createHttpHandler(inspected as Engine, {
      ...rest,
      ...(allowedHosts !== undefined && { allowedHosts }),
    })
    return (request, path) => {
      const headers = new Headers(request.headers)
      // The origin was compared with the host already.
      headers.delete('origin')
      if (!headers.has('host')) headers.set('host', new URL(request.url).host)
      return fetch(copyOf(request, new URL(path, request.url).href, headers))
    }
  }
  const inspected = narrowed(write ? unusedCapabilities : [...unusedCapabilities, ...writeCapabilities])
  const send = handlerOf(inspected)
  const read: Backend['read'] = async (request, path, eventsOf) => {
    const response = await send(request, path)
    if (eventsOf === undefined || !response.ok) return response
    const { headers, url } = request
    const header = (name: string): string | undefined => headers.get(name) ?? undefined
    const caller = await callerOf({ header, request: () => request }, rest.authenticate)
    return withPrincipals(response, {
      engine: inspected.as(caller),
      sessionId: eventsOf,
      query: new URL(path, url).searchParams,
    })
  }
  // A merge needs the right to change files, even if it is a preview.
  const preview = write ? send : handlerOf(narrowed([...unusedCapabilities, 'approvals.decide']))
  return { read, preview }
}

function onServer(
  server: InspectedServer,
  { authenticate }: Pick<InspectorOptions, 'authenticate'>,
): Backend {
  const send = (request: Request, path: string): Promise<Response> =>
    passOn(server, authenticate, request, path)
  return { read: send, preview: send }
}

/** @throws EngineError `INVALID_ARGUMENT` if there is no store in this process */
function checkOf(engine: Inspected | InspectedServer): Engine['check'] {
  if (!isEngine(engine) || typeof engine.check !== 'function')
    throw invalid(
      'check',
      'must be false for a server, and for an object without the method check of an engine',
    )
  const { check } = engine
  return (options) => check.call(engine as Engine, options)
}

function noCheck(isHere: boolean): string {
  return isHere
    ? 'the inspector does not check the store: it was opened without the option check'
    : 'a server has no operation that checks its store: stop it, and run forkspace check <directory>'
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
