import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { given as shown, invalid, Shape } from '../../../engine/index.js'
import { errorResponse } from './responses.js'
import { HttpError } from '../http-error.js'
import { innerOf, type FetchHandler } from './request-handler.js'
import { lingering, mostServer, serverLimits } from '../limits.js'
import { IdleConnections } from './idle-connections.js'
import { handleNode } from './node-adapter.js'
import { NodeRequest } from './node-request.js'

/** Options of {@link serve}. */
export interface ServeOptions {
  /** The name or address of this host to listen on; `127.0.0.1` by default. */
  readonly host?: string
  /** The port to listen on. 0, the default, selects a free port. */
  readonly port?: number
  /** Milliseconds that the headers of a request may take to arrive; 10,000 by default. */
  readonly headersTimeoutMs?: number
  /**
   * Milliseconds that the body of a request may take to arrive; 30,000 by default. This limit does not apply
   * to uploaded contents.
   */
  readonly requestTimeoutMs?: number
  /** Milliseconds that a connection stays open without a request; 10,000 by default. */
  readonly keepAliveMs?: number
  /** Largest size of the headers of a request, in bytes; 16,384 by default. */
  readonly headerBytes?: number
  /** Largest number of open connections; 10,000 by default. Further connections are closed immediately. */
  readonly connections?: number
}

/** Options of `server.close`. */
export interface CloseOptions {
  /** Milliseconds that running requests may take to end; 10,000 by default. */
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

/** A listening server. Closing it does not close the engine. */
export interface HttpServer extends AsyncDisposable {
  /** The address that the server listens on, such as `127.0.0.1`. */
  readonly host: string
  /** The port that the server listens on. */
  readonly port: number
  /** The URL of the server without a trailing slash, such as `http://127.0.0.1:8080`. */
  readonly url: string
  /**
   * Stops accepting requests. Streams and waits for locks end with `UNAVAILABLE`. Other requests may finish.
   * After `timeoutMs`, their connections are closed. The call is idempotent.
   *
   * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or out of range
   *
   * @example
   * await server.close({ timeoutMs: 1000 })
   * await engine.close()
   */
  close(options?: CloseOptions): Promise<void>
}

/** The smallest and the largest value of each option that is a number. */
const ranges: Readonly<Record<keyof Omit<ServeOptions, 'host'>, readonly [least: number, most: number]>> = {
  port: [0, 65_535],
  headersTimeoutMs: [0, mostServer.ms],
  requestTimeoutMs: [1, mostServer.ms],
  keepAliveMs: [0, mostServer.ms],
  headerBytes: [1, mostServer.headerBytes],
  connections: [1, mostServer.connections],
}

/**
 * Listens for requests. Rejects with Node's error, such as `EADDRINUSE`, if it cannot listen.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or out of range, or the handler is not from
 * {@link createHttpHandler}
 *
 * @example
 * const server = await serve(handler, { port: 8080 })
 * process.once('SIGTERM', () => server.close().then(() => engine.close()))
 */
export async function serve(handler: FetchHandler, options: ServeOptions = {}): Promise<HttpServer> {
  const given = serveShape.read(options, 'options')
  for (const [name, [least, most]] of Object.entries(ranges))
    checkWhole(name, given[name as keyof typeof ranges], least, most)
  const { host = '127.0.0.1', port = 0 } = given
  if (typeof host !== 'string')
    throw invalid('host', `must be a string, such as "127.0.0.1"; it is ${shown(host)}`)
  const {
    connections,
    requestTimeoutMs: bodyMs,
    headersTimeoutMs,
    keepAliveMs,
    headerBytes,
  } = { ...serverLimits, ...given }
  const inner = innerOf(handler)
  const server = createServer({
    headersTimeout: headersTimeoutMs,
    // Node's timeout would also end uploads. The reader of JSON bodies has its own timeout.
    requestTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    maxHeaderSize: headerBytes,
    connectionsCheckingInterval: serverLimits.checkMs,
    // The handler refuses such requests, with a response that gives the reason.
    requireHostHeader: false,
    noDelay: true,
    // A stream, or a wait for a lock, may be silent for any time. Only a probe finds out that its client is gone.
    keepAlive: true,
    keepAliveInitialDelay: serverLimits.probeMs,
  })
  server.maxConnections = connections
  // 0 means no limit. Node drops headers above a limit, possibly the length of the body. `maxHeaderSize`
  // limits the bytes.
  server.maxHeadersCount = 0
  const running = new Running(server, new IdleConnections({ keepAliveMs, headersTimeoutMs }))
  const waiting = (httpRequest: NodeRequest): void => running.wait(httpRequest)
  const listen =
    (goOn: boolean) =>
    (incoming: IncomingMessage, outgoing: ServerResponse): void => {
      running.add(incoming, outgoing)
      handleNode(inner, new NodeRequest(incoming, outgoing, { goOn, bodyMs, waiting }))
    }
  server.on('request', listen(false))
  server.on('checkContinue', listen(true))
  // An unknown `Expect` header is ignored. By default Node refuses it with an empty response.
  server.on('checkExpectation', listen(false))
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket: Socket) => {
    if (code === 'ECONNRESET') socket.destroy()
    else refuse(refusalOf(code), socket, running)
  })
  server.on('connect', (_incoming, socket: Socket) => {
    // Node has removed its own listeners. They noticed errors, and a client that leaves before its responses.
    socket.on('error', () => socket.destroy())
    if (running.toCome(socket) !== undefined) socket.on('end', () => socket.destroy())
    socket.resume()
    refuse(new HttpError('METHOD_NOT_ALLOWED', 'CONNECT is not a method of this server'), socket, running)
  })
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address() as AddressInfo
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address
  const close = async (closing: CloseOptions = {}): Promise<void> => {
    const { timeoutMs = serverLimits.closeMs } = closeShape.read(closing, 'options')
    checkWhole('timeoutMs', timeoutMs, 0, mostServer.ms)
    return running.close(timeoutMs)
  }
  return {
    host: address.address,
    port: address.port,
    url: `http://${name}:${address.port}`,
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

function checkWhole(field: string, value: number | undefined, least: number, most: number): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= least && value <= most)) return
  throw invalid(field, `must be a whole number from ${least} to ${most}; it is ${shown(value)}`)
}

/** The connections of a server, and the requests whose responses are not complete. */
class Running {
  readonly #server: Server
  /** The newest response of each connection. */
  readonly #responses = new WeakMap<Socket, ServerResponse>()
  readonly #waiting = new Set<NodeRequest>()
  /** Connections that have not sent a request yet. */
  readonly #unused = new Set<Socket>()
  readonly #idle: IdleConnections
  #closed: Promise<void> | undefined

  constructor(server: Server, idle: IdleConnections) {
    this.#server = server
    this.#idle = idle
    server.on('connection', (socket) => {
      this.#unused.add(socket)
      socket.once('close', () => this.#unused.delete(socket))
    })
  }

  add({ socket }: IncomingMessage, outgoing: ServerResponse): void {
    this.#unused.delete(socket)
    this.#responses.set(socket, outgoing)
    this.#idle.begin(socket)
    outgoing.once('finish', () => {
      if (this.#responses.get(socket) === outgoing) this.#idle.end(socket)
    })
    if (this.#closed !== undefined) outgoing.setHeader('connection', 'close')
  }

  /** Registers a stream or a wait for a lock. */
  wait(httpRequest: NodeRequest): void {
    this.#waiting.add(httpRequest)
    httpRequest.outgoing.once('close', () => this.#waiting.delete(httpRequest))
    // The caller is still inside `signal()`, so the abort must wait until it has returned.
    if (this.#closed !== undefined) queueMicrotask(() => dismiss(httpRequest))
  }

  /** Whether an error response would interrupt another response. */
  responding(socket: Socket): boolean {
    const outgoing = this.#responses.get(socket)
    // A response without a socket is queued after another one.
    return (
      outgoing !== undefined && !outgoing.writableEnded && (outgoing.headersSent || outgoing.socket === null)
    )
  }

  /** Returns the response that has not started yet, if its request has arrived completely. */
  toCome(socket: Socket): ServerResponse | undefined {
    const outgoing = this.#responses.get(socket)
    return outgoing?.req.complete === true && !outgoing.headersSent ? outgoing : undefined
  }

  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#close(timeoutMs)
    return this.#closed
  }

  async #close(timeoutMs: number): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const httpRequest of this.#waiting) dismiss(httpRequest)
    for (const socket of this.#unused) socket.destroy()
    // Node does not close a connection when its last response ends.
    const idle = setInterval(() => this.#server.closeIdleConnections(), 20)
    const timer = setTimeout(() => this.#server.closeAllConnections(), timeoutMs)
    await closed
    clearInterval(idle)
    clearTimeout(timer)
  }
}

function dismiss(httpRequest: NodeRequest): void {
  httpRequest.abort(new HttpError('UNAVAILABLE', 'the server is closing'))
}

/** Refuses bytes that are not HTTP, headers that are too long, requests that arrive too slowly, and `CONNECT`. */
function refuse(error: HttpError, socket: Socket, running: Running): void {
  // Invalid bytes after a complete request do not affect that request.
  const toCome = socket.writable ? running.toCome(socket) : undefined
  if (toCome !== undefined) {
    // Every further piece of the invalid bytes causes another error.
    if (last.has(toCome)) return
    last.add(toCome)
    toCome.once('finish', () => endSoon(socket))
    return
  }
  // More invalid bytes have arrived, but the response is already being sent.
  if (ending.has(socket)) {
    socket.pause()
    return
  }
  if (!socket.writable || running.responding(socket)) {
    socket.destroy()
    return
  }
  const { status, headers, body } = errorResponse(error)
  const lines = Object.entries({
    ...headers,
    'content-length': Buffer.byteLength(body as string),
    connection: 'close',
  })
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body as string}`)
  endSoon(socket)
}

/** Responses that close their connection, because invalid bytes followed their request. */
const last = new WeakSet<ServerResponse>()

const ending = new WeakSet<Socket>()

/**
 * Ends a connection whose client may still send, and destroys it shortly afterwards, even if the client does
 * not close its side. Destroying it immediately would reset it, and the client could lose the response.
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
    return new HttpError('REQUEST_TIMEOUT', 'the request arrived too slowly')
  return new HttpError('INVALID_ARGUMENT', 'request: must be HTTP/1.1', { field: 'request' })
}
