import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { errorResponse, isStream } from './responses.js'
import type { HttpResponse, ResponseStream } from './http-messages.js'
import { HttpError } from '../http-error.js'
import { innerOf, type FetchHandler, type RequestHandler } from './request-handler.js'
import { lingering, pieceBytes } from '../limits.js'
import { NodeRequest } from './node-request.js'

/**
 * Converts the handler to a `request` listener for node:http, or a middleware for Express. Earlier middleware
 * must not read the bodies of requests.
 *
 * @example
 * createServer(toNodeHandler(handler)).listen(8080, '127.0.0.1')
 */
export function toNodeHandler(
  handler: FetchHandler,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  const inner = innerOf(handler)
  return (incoming, outgoing) => handleNode(inner, new NodeRequest(incoming, outgoing, { goOn: false }))
}

export function handleNode(handler: RequestHandler, httpRequest: NodeRequest): void {
  laneOf(httpRequest.incoming.socket).enter(httpRequest, handler)
}

/**
 * The queue of unanswered requests of a connection. Each request starts after the response to the previous
 * one was sent.
 */
class Lane {
  readonly #waiting: Entry[] = []
  #busy = false
  #ended = false

  enter(httpRequest: NodeRequest, handler: RequestHandler): void {
    const isLast = this.#waiting.length + (this.#busy ? 1 : 0) >= handler.limits.requestsPerConnection
    if (this.#ended || isLast) httpRequest.incoming.socket.pause()
    if (this.#ended) return
    this.#ended = isLast
    const entry = { httpRequest, handler, isLast }
    if (this.#busy) this.#waiting.push(entry)
    else this.#begin(entry)
  }

  #begin({ httpRequest, handler, isLast }: Entry): void {
    this.#busy = true
    httpRequest.onOver(() => this.#next())
    const fail = (error: unknown): void => {
      handler.report(error)
      httpRequest.outgoing.destroy()
    }
    const send = (httpResponse: HttpResponse): void => {
      try {
        deliver(httpResponse, handler, httpRequest)?.catch(fail)
      } catch (error) {
        fail(error)
      }
    }
    if (isLast) send(tooMany(handler))
    else handler.handle(httpRequest).then(send, fail)
  }

  #next(): void {
    this.#busy = false
    const next = this.#waiting.shift()
    if (next === undefined) return
    if (next.httpRequest.isGone()) this.#waiting.length = 0
    else this.#begin(next)
  }
}

interface Entry {
  readonly httpRequest: NodeRequest
  readonly handler: RequestHandler
  /**
   * Whether the request exceeds the limit. Such a request is refused, and its response closes the connection.
   */
  readonly isLast: boolean
}

const lanes = new WeakMap<Socket, Lane>()

function laneOf(socket: Socket): Lane {
  let lane = lanes.get(socket)
  if (lane === undefined) lanes.set(socket, (lane = new Lane()))
  return lane
}

function tooMany({ limits }: RequestHandler): HttpResponse {
  const limit = String(limits.requestsPerConnection)
  const refusal = errorResponse(new HttpError('QUOTA', 'too many requests on one connection', { limit }))
  return { ...refusal, headers: { ...refusal.headers, connection: 'close' } }
}

/**
 * Sends a response. Returns a promise only for a response in pieces. Most responses are one piece, which a
 * promise would slow down.
 */
function deliver(
  httpResponse: HttpResponse,
  { limits }: RequestHandler,
  httpRequest: NodeRequest,
): Promise<void> | undefined {
  const { incoming, outgoing } = httpRequest
  const { body, sent } = httpResponse
  if (httpRequest.isGone()) {
    if (isStream(body)) body.cancel()
    sent?.()
    return undefined
  }
  if (sent !== undefined) httpRequest.onOver(sent)
  if (httpRequest.hasBody && !incoming.complete) linger(incoming, outgoing)
  const finish = (): void => cutOff(outgoing, limits.stalledResponseMs)
  if (isStream(body)) {
    outgoing.writeHead(httpResponse.status, httpResponse.headers)
    outgoing.flushHeaders()
    // A length of 0 means a stream that stays open.
    const stalledMs = httpResponse.length === 0 ? limits.stalledStreamMs : limits.stalledResponseMs
    return pump(body, outgoing, stalledMs).then(finish)
  }
  if (httpResponse.length > pieceBytes && httpResponse.headersOnly !== true) {
    outgoing.writeHead(httpResponse.status, {
      ...httpResponse.headers,
      'content-length': httpResponse.length,
    })
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    return pump(inPieces(bytes), outgoing, limits.stalledResponseMs).then(finish)
  }
  send(httpResponse, outgoing)
  finish()
  return undefined
}

function send({ status, headers, length, headersOnly, body }: HttpResponse, outgoing: ServerResponse): void {
  // A flat array is the fastest form for Node.
  const list: string[] = []
  for (const [name, value] of Object.entries(headers)) list.push(name, value)
  if (status !== 204) list.push('content-length', String(length))
  outgoing.writeHead(status, list)
  outgoing.end(headersOnly === true ? undefined : body)
}

/** Closes the connection if the client does not receive the end of a response in time. */
function cutOff(outgoing: ServerResponse, stalledMs: number): void {
  // Usually, the operating system has already accepted the whole response.
  if (outgoing.socket === null || outgoing.socket.writableLength === 0) return
  const stalled = setTimeout(() => outgoing.destroy(), stalledMs)
  outgoing.once('close', () => clearTimeout(stalled))
}

function inPieces(body: Uint8Array): ResponseStream {
  let sent = 0
  return {
    next: () => {
      const piece = body.subarray(sent, sent + pieceBytes)
      sent += piece.byteLength
      return Promise.resolve(piece.byteLength === 0 ? undefined : piece)
    },
    cancel: () => undefined,
  }
}

/**
 * Reads each piece only after the previous one was written. Closes the connection of a client that receives
 * nothing.
 */
async function pump(stream: ResponseStream, outgoing: ServerResponse, stalledMs: number): Promise<void> {
  let goOn: (() => void) | undefined
  const onward = (): void => goOn?.()
  outgoing.on('drain', onward)
  outgoing.once('close', () => {
    stream.cancel()
    onward()
  })
  for (;;) {
    const piece = await stream.next()
    if (outgoing.destroyed) return
    if (piece === undefined) break
    if (outgoing.write(piece)) continue
    const stalled = setTimeout(() => outgoing.destroy(), stalledMs)
    await new Promise<void>((resolve) => {
      goOn = resolve
    })
    clearTimeout(stalled)
  }
  outgoing.end()
}

/**
 * Continues to read for a short time after the response. If the server closed the connection while its client
 * still sends, it would be reset, and the client could lose the response.
 */
function linger(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.once('finish', () => {
    if (incoming.complete) return
    let bytes = 0
    const timer = setTimeout(() => incoming.destroy(), lingering.ms)
    timer.unref()
    incoming.once('close', () => clearTimeout(timer))
    incoming.on('error', () => undefined)
    incoming.on('data', (piece: Buffer) => {
      bytes += piece.byteLength
      if (bytes > lingering.bytes) incoming.destroy()
    })
  })
}
