import type { IncomingMessage, ServerResponse } from 'node:http'
import { isStream } from './answers.js'
import type { Answer, AnswerStream } from './exchange.js'
import type { Handler } from './handler.js'
import { innerOf, type HttpHandler } from './http-handler.js'
import { lingering } from './limits.js'
import { NodeExchange } from './node-exchange.js'

/**
 * The handler as a listener of a server of node:http, or as a middleware of Express: behind nothing that reads the
 * bodies of requests.
 *
 * @example
 * createServer(toNodeHandler(handler)).listen(8080, '127.0.0.1')
 */
export function toNodeHandler(
  handler: HttpHandler,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  const inner = innerOf(handler)
  return (incoming, outgoing) => answerNode(inner, new NodeExchange(incoming, outgoing, { goOn: false }))
}

export function answerNode(handler: Handler, exchange: NodeExchange): void {
  answer(handler, exchange).catch((error: unknown) => {
    handler.tell(error)
    exchange.outgoing.destroy()
  })
}

async function answer(handler: Handler, exchange: NodeExchange): Promise<void> {
  const answer = await handler.answer(exchange)
  const { incoming, outgoing } = exchange
  if (outgoing.destroyed) {
    if (isStream(answer.body)) answer.body.cancel()
    return
  }
  if (exchange.hasBody && !incoming.complete) linger(incoming, outgoing)
  const { body } = answer
  if (isStream(body)) {
    outgoing.writeHead(answer.status, answer.headers)
    outgoing.flushHeaders()
    await pump(body, outgoing, handler.limits.stalledStreamMs)
  } else send(answer, body, outgoing)
}

function send(
  { status, headers, length, headersOnly }: Answer,
  body: string | Uint8Array,
  outgoing: ServerResponse,
): void {
  // A flat list is the form that costs least.
  const list: string[] = []
  for (const name in headers) list.push(name, headers[name]!)
  if (status !== 204) list.push('content-length', String(length))
  outgoing.writeHead(status, list)
  outgoing.end(headersOnly === true ? undefined : body)
}

/** Asks for the next piece only when the one before it is on its way; a client that takes nothing is cut off. */
async function pump(stream: AnswerStream, outgoing: ServerResponse, stalledMs: number): Promise<void> {
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

/** A connection that is closed while its client still sends is reset, and the answer lost on the way. */
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
