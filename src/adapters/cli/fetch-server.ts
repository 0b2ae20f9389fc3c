import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { cliLimits } from './limits.js'

/** A handler of the Fetch API. */
type Handle = (request: Request) => Promise<Response>

export interface FetchServer {
  readonly port: number
  close(): Promise<void>
}

/**
 * Serves a handler of the Fetch API on loopback only.
 *
 * @param stalledMs How long a client may leave an answer unread, or take to send a request.
 */
export async function serveFetch(
  handle: Handle,
  port: number,
  stalledMs: number = cliLimits.inspectStalledMs,
): Promise<FetchServer> {
  const server = createServer({
    maxHeaderSize: cliLimits.inspectHeaderBytes,
    headersTimeout: stalledMs,
    requestTimeout: stalledMs,
    connectionsCheckingInterval: Math.min(stalledMs, cliLimits.inspectCheckMs),
  })
  server.maxConnections = cliLimits.inspectConnections
  const lanes = new Lanes(handle)
  server.on('request', (incoming, outgoing) => lanes.enter(incoming, outgoing))
  server.timeout = stalledMs
  server.on('timeout', (socket) => {
    // A stream may have nothing to send for long.
    if (!lanes.isBusy(socket) || socket.writableLength > 0) socket.destroy()
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  return { port: own, close: () => close(server) }
}

/** Answers the requests of each connection one after the other, so that only one answer of it is in memory. */
class Lanes {
  readonly #handle: Handle
  readonly #lanes = new WeakMap<Socket, { unanswered: number; last: Promise<void> }>()

  constructor(handle: Handle) {
    this.#handle = handle
  }

  enter(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { socket } = incoming
    const lane = this.#lanes.get(socket) ?? { unanswered: 0, last: Promise.resolve() }
    this.#lanes.set(socket, lane)
    if (lane.unanswered >= cliLimits.inspectRequests) {
      socket.destroy()
      return
    }
    lane.unanswered++
    lane.last = lane.last
      .then(() => (socket.destroyed ? undefined : answer(this.#handle, incoming, outgoing)))
      .catch(() => {
        socket.destroy()
      })
      .then(() => {
        lane.unanswered--
      })
  }

  /** Whether a request of a connection is not answered yet. */
  isBusy(socket: Socket): boolean {
    return (this.#lanes.get(socket)?.unanswered ?? 0) > 0
  }
}

async function answer(handle: Handle, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController()
  outgoing.once('close', () => gone.abort())
  const response = await handle(requestOf(incoming, gone.signal))
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  if (response.body === null) outgoing.end()
  else {
    outgoing.flushHeaders()
    await pipeline(Readable.fromWeb(response.body as never), outgoing)
  }
}

function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET', url = '/' } = incoming
  const headers = new Headers()
  for (const [name, values] of Object.entries(incoming.headersDistinct))
    for (const value of values ?? []) headers.append(name, value)
  const hasBody = method !== 'GET' && method !== 'HEAD'
  // The host of the URL is only a base: the handler checks the header. A path such as `//x` would become a host.
  const target = new URL(`http://127.0.0.1/${url.replace(/^\/+/, '')}`)
  return new Request(target, {
    method,
    headers,
    signal,
    ...(hasBody && { body: Readable.toWeb(incoming), duplex: 'half' }),
  })
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}
