import { EngineError } from '../../engine/index.js'
import type { Authenticate } from '../http/index.js'
import { callerOf, HttpError } from '../http/parts.js'
import { readBody } from './body.js'
import { inspectorLimits } from './limits.js'
import type { InspectedServer } from './options.js'

/** Headers of a request that the server needs; the token is replaced. */
const requestHeaders = ['accept', 'content-type']
const responseHeaders = ['content-type', 'content-length', 'forkspace-size-bytes', 'forkspace-starts-after']

/** Passes an allowed request on to a running server, with the token of that server. */
export async function passOn(
  { baseUrl, token }: InspectedServer,
  authenticate: Authenticate,
  request: Request,
  path: string,
): Promise<Response> {
  await callerOf(
    { header: (name) => request.headers.get(name) ?? undefined, request: () => request },
    authenticate,
  )
  const headers = new Headers({ authorization: `Bearer ${token}` })
  for (const name of requestHeaders) {
    const value = request.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  const body = request.body === null ? null : await readBody(request)
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), inspectorLimits.serverMs)
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method: request.method,
      headers,
      body,
      redirect: 'error',
      signal: AbortSignal.any([request.signal, late.signal]),
    })
    if (response.status === 401) {
      await response.body?.cancel()
      throw refused(baseUrl)
    }
    const kept = new Headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
    for (const name of responseHeaders) {
      const value = response.headers.get(name)
      if (value !== null) kept.set(name, value)
    }
    // fetch has undone a compression, so its length is another one.
    if (response.headers.has('content-encoding')) kept.delete('content-length')
    return new Response(endingWith(response.body, request.signal), { status: response.status, headers: kept })
  } catch (error) {
    if (error instanceof HttpError || error instanceof EngineError) throw error
    throw new HttpError('UNAVAILABLE', `the server at ${new URL(baseUrl).origin} does not answer`)
  } finally {
    clearTimeout(timer)
  }
}

/** The body until the signal aborts. After a garbage collection, `fetch` does not notice that by itself. */
function endingWith(body: Response['body'], signal: AbortSignal): Response['body'] {
  return body?.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal }) ?? null
}

/** The page would take the status 401 as one about its own token, and ask its user for another one. */
function refused(baseUrl: string): EngineError {
  return new EngineError(
    'PERMISSION_DENIED',
    `the server at ${new URL(baseUrl).origin} does not accept the token that the inspector was opened with: open it with a token of the server`,
  )
}
