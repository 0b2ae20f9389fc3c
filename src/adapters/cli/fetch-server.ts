import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { cliLimits } from './limits.js'

/** A handler of the Fetch API. */
type Handle = (request: Request) => Promise<Response>

export interface FetchServer {
  readonly port: number
  close(): Promise<void>
}

/** Serves a handler of the Fetch API on loopback only. */
export async function serveFetch(handle: Handle, port: number): Promise<FetchServer> {
  const server = createServer({ maxHeaderSize: cliLimits.inspectHeaderBytes })
  server.maxConnections = cliLimits.inspectConnections
  server.on('request', (incoming, outgoing) => {
    answer(handle, incoming, outgoing).catch(() => outgoing.destroy())
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  return { port: own, close: () => close(server) }
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
