import { isStream } from './responses.js'
import { clientGone, type HttpResponse, type ResponseStream, type HttpRequest } from './http-messages.js'
import type { RequestHandler } from './request-handler.js'

/**
 * The request of each streamed response. A stream ends when the signal of its request aborts, but the signal of a
 * garbage-collected request never does.
 */
const requestOf = new WeakMap<ReadableStream, Request>()

/** Handles a request of the Fetch API. */
export async function handleFetch(handler: RequestHandler, request: Request): Promise<Response> {
  const httpResponse = await handler.handle(toHttpRequest(request))
  // The Fetch API does not report when the response has been sent.
  httpResponse.sent?.()
  const body = bodyOf(httpResponse, handler.limits.stalledStreamMs)
  if (body instanceof ReadableStream) requestOf.set(body, request)
  return new Response(body, {
    status: httpResponse.status,
    // A null body has no length, so the header must give it.
    headers: httpResponse.headersOnly
      ? { ...httpResponse.headers, 'content-length': String(httpResponse.length) }
      : httpResponse.headers,
  })
}

function toHttpRequest(request: Request): HttpRequest {
  const { url, method, headers } = request
  return {
    method,
    // The URL parser has already resolved dot segments, so the routes apply to the resolved path.
    target: url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/#.*$/s, ''),
    hasBody: request.body !== null,
    header: (name) => headers.get(name) ?? (name === 'host' ? new URL(url).host : undefined),
    // The Fetch API joins repeated headers with commas. No valid host, token or content type contains a
    // comma.
    repeats: () => false,
    readBody: async (take) => {
      for await (const piece of bodyPieces(request)) take(piece)
    },
    body: () => bodyPieces(request),
    signal: () => request.signal,
    gone: () => request.signal,
    isGone: () => request.signal.aborted,
    request: () => request,
  }
}

/** The body. It fails only because of the client. */
async function* bodyPieces({ body }: Request): AsyncGenerator<Uint8Array, void> {
  if (body === null) return
  const reader = body.getReader()
  let isOver = false
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw clientGone()
      })
      isOver = done
      if (done) return
      yield value
    }
  } finally {
    // Not awaited, because a source may take long to end.
    if (!isOver) reader.cancel().catch(() => undefined)
  }
}

function bodyOf(httpResponse: HttpResponse, stalledMs: number): ConstructorParameters<typeof Response>[0] {
  const { status, body, headersOnly } = httpResponse
  if (isStream(body)) return readable(body, stalledMs)
  return status === 204 || status === 304 || headersOnly === true ? null : (body as string)
}

/** Converts a stream without reading ahead. Cancels it if its consumer does not read for `stalledMs`. */
function readable(stream: ResponseStream, stalledMs: number): ReadableStream<Uint8Array> {
  let stalled: NodeJS.Timeout | undefined
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(stalled)
        const piece = await stream.next()
        if (piece === undefined) {
          controller.close()
          return
        }
        controller.enqueue(piece)
        stalled = setTimeout(() => {
          stream.cancel()
          controller.error(new Error(`the client did not read the stream for ${stalledMs} ms`))
        }, stalledMs)
        stalled.unref()
      },
      cancel() {
        clearTimeout(stalled)
        stream.cancel()
      },
    },
    { highWaterMark: 0 },
  )
}
