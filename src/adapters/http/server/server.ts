import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Shape } from '../../../engine/index.js'
import { answerError } from './answers.js'
import { HttpError } from '../http-error.js'
import { innerOf, type HttpHandler } from './http-handler.js'
import { lingering } from '../limits.js'
import { answerNode } from './node-door.js'
import { NodeExchange } from './node-exchange.js'

/** Times are milliseconds. */
export interface ServeOptions {
  /** A name or address of this host; `127.0.0.1` by default. */
  readonly host?: string
  /** 0, the default, is any that is free. */
  readonly port?: number
  /** Until all headers of a request are there; 10,000 by default. */
  readonly headersTimeoutMs?: number
  /** Until all of a request is there, unless its body is an uploaded content; 30,000 by default. */
  readonly requestTimeoutMs?: number
  /** How long a connection stays open without a request; 10,000 by default. */
  readonly keepAliveMs?: number
  /** The headers of a request; 16 KiB by default. */
  readonly headerBytes?: number
  /** Open connections; 10,000 by default. Further ones are closed at once. */
  readonly connections?: number
}

export interface CloseOptions {
  /** How long requests that are being carried out may take to end; 10,000 by default. */
  readonly timeoutMs?: number
}

const serveShape = new Shape<ServeOptions>({
  host: true,
  port: true,
  headersTimeoutMs: true,
  requestTimeoutMs: true,
  keepAliveMs: true,
  headerBytes: true,
  connections: true,
})

const closeShape = new Shape<CloseOptions>({ timeoutMs: true })

/** A server that listens. Closing it does not close the engine. */
export interface HttpServer extends AsyncDisposable {
  readonly host: string
  readonly port: number
  /** Without a slash at its end. */
  readonly url: string
  /**
   * Takes no more requests, ends streams and waits for locks with UNAVAILABLE, lets all other requests end, and cuts
   * off those that have not ended in time. Idempotent.
   */
  close(options?: CloseOptions): Promise<void>
}

/**
 * Listens for requests. Rejects with what the system says where that is not possible.
 *
 * @example
 * const server = await serve(handler, { port: 8080 })
 * process.once('SIGTERM', () => server.close().then(() => engine.close()))
 */
export async function serve(handler: HttpHandler, options: ServeOptions = {}): Promise<HttpServer> {
  const given = serveShape.read(options, 'options')
  const { host = '127.0.0.1', port = 0, connections = 10_000, requestTimeoutMs: bodyMs = 30_000 } = given
  const inner = innerOf(handler)
  const server = createServer({
    headersTimeout: given.headersTimeoutMs ?? 10_000,
    // Node's timeout would end uploads too. The reader of a body has a timeout of its own.
    requestTimeout: 0,
    keepAliveTimeout: given.keepAliveMs ?? 10_000,
    maxHeaderSize: given.headerBytes ?? 16 * 1024,
    connectionsCheckingInterval: 1000,
    // It is the handler that refuses, with an answer that says why.
    requireHostHeader: false,
    noDelay: true,
  })
  server.maxConnections = connections
  // Their bytes are bounded: beyond a count Node would leave some out, and a body with them.
  server.maxHeadersCount = 0
  const running = new Running(server)
  const waiting = (exchange: NodeExchange): void => running.wait(exchange)
  const listen =
    (goOn: boolean) =>
    (incoming: IncomingMessage, outgoing: ServerResponse): void => {
      running.add(incoming, outgoing)
      answerNode(inner, new NodeExchange(incoming, outgoing, { goOn, bodyMs, waiting }))
    }
  server.on('request', listen(false))
  server.on('checkContinue', listen(true))
  // An expectation that nobody knows is no reason to refuse, and Node's refusal says nothing.
  server.on('checkExpectation', listen(false))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => refuse(error, socket, running))
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address
  const close = async (closing: CloseOptions = {}): Promise<void> =>
    running.close(closeShape.read(closing, 'options').timeoutMs ?? 10_000)
  return {
    host: address.address,
    port: address.port,
    url: `http://${name}:${address.port}`,
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

/** What a server has to know of the requests that are not answered to the end. */
class Running {
  readonly #server: Server
  /** The newest of each connection. */
  readonly #answers = new WeakMap<Socket, ServerResponse>()
  readonly #waiting = new Set<NodeExchange>()
  /** Connections without a request so far. */
  readonly #unused = new Set<Socket>()
  #closed: Promise<void> | undefined

  constructor(server: Server) {
    this.#server = server
    server.on('connection', (socket) => {
      this.#unused.add(socket)
      socket.once('close', () => this.#unused.delete(socket))
    })
  }

  add({ socket }: IncomingMessage, outgoing: ServerResponse): void {
    this.#unused.delete(socket)
    this.#answers.set(socket, outgoing)
    if (this.#closed !== undefined) outgoing.setHeader('connection', 'close')
  }

  /** Of streams and waits for locks. */
  wait(exchange: NodeExchange): void {
    this.#waiting.add(exchange)
    exchange.outgoing.once('close', () => this.#waiting.delete(exchange))
    // Not while its signal is still being asked for.
    if (this.#closed !== undefined) queueMicrotask(() => dismiss(exchange))
  }

  /** Whether an error would stand in the middle of an answer. */
  answering(socket: Socket): boolean {
    const outgoing = this.#answers.get(socket)
    // An answer without a socket is behind another one.
    return (
      outgoing !== undefined && !outgoing.writableEnded && (outgoing.headersSent || outgoing.socket === null)
    )
  }

  /** The answer that is still to come, when the request it is for has come whole. */
  toCome(socket: Socket): ServerResponse | undefined {
    const outgoing = this.#answers.get(socket)
    return outgoing?.req.complete === true && !outgoing.headersSent ? outgoing : undefined
  }

  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#close(timeoutMs)
    return this.#closed
  }

  async #close(timeoutMs: number): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const exchange of this.#waiting) dismiss(exchange)
    for (const socket of this.#unused) socket.destroy()
    // Connections do not end with the answers that were under way.
    const idle = setInterval(() => this.#server.closeIdleConnections(), 20)
    const timer = setTimeout(() => this.#server.closeAllConnections(), timeoutMs)
    await closed
    clearInterval(idle)
    clearTimeout(timer)
  }
}

function dismiss(exchange: NodeExchange): void {
  exchange.abort(new HttpError('UNAVAILABLE', 'the server is being closed'))
}

/** What is not HTTP, too long, or too slow. */
function refuse(error: NodeJS.ErrnoException, socket: Socket, running: Running): void {
  // What stands behind whole requests is no reason to refuse these.
  const toCome = socket.writable && error.code !== 'ECONNRESET' ? running.toCome(socket) : undefined
  if (toCome !== undefined) {
    // Every piece of the refused bytes leads here.
    if (last.has(toCome)) return
    last.add(toCome)
    toCome.once('finish', () => endSoon(socket))
    return
  }
  // More of the refused bytes: the answer is on its way.
  if (ending.has(socket)) {
    socket.pause()
    return
  }
  if (error.code === 'ECONNRESET' || !socket.writable || running.answering(socket)) {
    socket.destroy()
    return
  }
  const { status, headers, body } = answerError(refusalOf(error.code))
  const lines = Object.entries({
    ...headers,
    'content-length': Buffer.byteLength(body as string),
    connection: 'close',
  })
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body as string}`)
  endSoon(socket)
}

/** Answers that end their connections, as refused bytes follow their requests. */
const last = new WeakSet<ServerResponse>()

const ending = new WeakSet<Socket>()

/**
 * Ends a connection whose client may still send, and destroys it shortly afterwards, whether the client closes its
 * side or not. Destroying it at once would reset it, and the answer could be lost on the way.
 */
function endSoon(socket: Socket): void {
  ending.add(socket)
  socket.end()
  const timer = setTimeout(() => socket.destroy(), lingering.ms)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
}

function refusalOf(code: string | undefined): HttpError {
  if (code === 'HPE_HEADER_OVERFLOW') return new HttpError('HEADERS_TOO_LARGE', 'the headers are too long')
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new HttpError('REQUEST_TIMEOUT', 'the request came too slowly')
  return new HttpError('INVALID_ARGUMENT', 'request: must be HTTP/1.1', { field: 'request' })
}
