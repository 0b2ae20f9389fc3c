import { connect, type Socket } from 'node:net'
import {
  createHttpHandler,
  serve,
  staticTokens,
  type HttpHandler,
  type HttpHandlerOptions,
  type HttpServer,
  type ServeOptions,
} from '../../src/adapters/http/index.js'
import { openEngine, type Engine, type EngineOptions, type Session } from '../../src/index.js'

export const token = 'the-token'
export const caller = { tenant: 'acme', principal: 'ann' }

export interface Answered {
  readonly status: number
  readonly headers: Headers
  /** The parsed JSON, if the body is JSON. */
  readonly body: unknown
  readonly text: string
}

export interface TestServerOptions {
  readonly engine?: EngineOptions
  readonly handler?: Partial<HttpHandlerOptions>
  readonly server?: ServeOptions
}

type Call = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<Answered>

/** A listening server with its own engine. */
export interface TestServer extends AsyncDisposable {
  readonly engine: Engine
  readonly handler: HttpHandler
  readonly server: HttpServer
  readonly url: string
  /** A session of the caller. */
  session(files?: Readonly<Record<string, string | Uint8Array>>): Promise<Session>
  /** Sends the caller's token; a body that is not a string is sent as JSON. */
  readonly call: Call
  /** The same call through the handler's `fetch`. */
  readonly fetch: Call
  /** Sends raw bytes; returns everything received until the server closes or `until` appears in it. */
  raw(sent: string | Uint8Array, until?: string): Promise<string>
  /** The head of a request. */
  head(method: string, path: string, ...headers: readonly string[]): string
  open(options?: { readonly allowHalfOpen: boolean }): Promise<Socket>
}

export async function openServer(options: TestServerOptions = {}): Promise<TestServer> {
  const engine = await openEngine(options.engine)
  const handler = createHttpHandler(engine, {
    authenticate: staticTokens({ [token]: caller }),
    ...options.handler,
  })
  const server = await serve(handler, options.server)
  const { url } = server
  const requestOf = (
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
  ): Request => {
    const all = new Headers(headers)
    if (!all.has('authorization')) all.set('authorization', `Bearer ${token}`)
    if (body !== undefined && !all.has('content-type')) all.set('content-type', 'application/json')
    const raw = typeof body === 'string' || body instanceof Uint8Array || body instanceof ReadableStream
    return new Request(url + path, {
      method,
      headers: all,
      ...(body !== undefined && { body: (raw ? body : JSON.stringify(body)) as string, duplex: 'half' }),
    })
  }
  const open = async (socketOptions = {}): Promise<Socket> => {
    const socket = connect({ port: server.port, host: server.host, ...socketOptions })
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return socket
  }
  return {
    engine,
    handler,
    server,
    url,
    session: (files = {}) => engine.as(caller).sessions.create({ files }),
    call: async (...request) => answered(await fetch(requestOf(...filled(request)))),
    fetch: async (...request) => answered(await handler.fetch(requestOf(...filled(request)))),
    raw: async (sent, until) => {
      const socket = await open()
      socket.write(sent)
      const text = await readAll(socket, until)
      socket.destroy()
      return text
    },
    head: (method, path, ...headers) =>
      [
        `${method} ${path} HTTP/1.1`,
        `host: 127.0.0.1`,
        `authorization: Bearer ${token}`,
        ...headers,
        '',
        '',
      ].join('\r\n'),
    open,
    [Symbol.asyncDispose]: async () => {
      await server.close({ timeoutMs: 1000 })
      await engine.close()
    },
  }
}

type Filled = [method: string, path: string, body: unknown, headers: Record<string, string> | undefined]

function filled([method, path, body, headers]: readonly unknown[]): Filled {
  return [method as string, path as string, body, headers as Record<string, string> | undefined]
}

export async function answered(response: Response): Promise<Answered> {
  const text = await response.text()
  const { status, headers } = response
  return { status, headers, text, body: text === '' ? undefined : (JSON.parse(text) as unknown) }
}

/** Returns everything received until the peer closes or the given text appears. */
export function readAll(socket: Socket, until?: string): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.on('data', (piece: Buffer) => {
      text += piece.toString('latin1')
      if (until !== undefined && text.includes(until)) resolve(text)
    })
    socket.once('close', () => resolve(text))
    socket.on('error', () => undefined)
  })
}

/** The stable parts of an error response. */
export function refusalIn({ status, body }: Answered): object {
  const { code, details } = body as Status
  const [info] = details
  return { status, code, reason: info?.reason, ...info?.metadata }
}

interface Status {
  readonly code: number
  readonly details: readonly {
    readonly reason: string
    readonly metadata: Readonly<Record<string, string>>
  }[]
}
