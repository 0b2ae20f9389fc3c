import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { HttpLimits, ServeOptions } from '../../src/adapters/http/index.js'
import { compiledAttacks } from './compiled-attacks.js'
import type { FullIds } from './full-session.js'

export const token = 'the-token'
/** The token of another tenant. */
export const otherToken = 'other-token'

export interface TargetOptions {
  readonly limits?: Partial<HttpLimits>
  readonly server?: ServeOptions
  /** The sizes of files in the session, by path. */
  readonly files?: Readonly<Record<string, number>>
  /**
   * Above 0, the session has large contents, long names and large records: this share of as many as it may have. The store is
   * then one on disk.
   */
  readonly fullShare?: number
}

export interface Started {
  readonly port: number
  readonly sessionId: string
  /** A session of the other tenant. */
  readonly otherSessionId: string
  /** Only with `fullShare`. */
  readonly full?: FullIds | undefined
}

export interface Figures {
  /** The remote ports of open connections. */
  readonly ports: readonly number[]
  readonly descriptors: number
  readonly rssBytes: number
  /** The heap and the buffers in use. */
  readonly liveBytes: number
}

/** A server in its own process. */
export class HttpTarget implements AsyncDisposable {
  readonly started: Started
  readonly #process: ChildProcess
  readonly #sockets = new Set<Socket>()

  private constructor(child: ChildProcess, started: Started) {
    this.#process = child
    this.started = started
  }

  static async start(options: TargetOptions = {}): Promise<HttpTarget> {
    const child = fork(join(await compiledAttacks(), 'http-child.js'), { execArgv: ['--expose-gc'] })
    return new HttpTarget(child, await asked<Started>(child, options))
  }

  /** Opens a connection that neither reads nor closes by itself. */
  async open(): Promise<Socket> {
    const socket = connect({ port: this.started.port, host: '127.0.0.1', allowHalfOpen: true })
    this.keep(socket)
    await once(socket, 'connect')
    return socket
  }

  /** Destroys the connection at the end. */
  keep(socket: Socket): void {
    socket.on('error', () => undefined)
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  /** Destroys all connections, and waits until the server has noticed. */
  async closeAll(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    while ((await asked<readonly number[]>(this.#process, 'ports')).length > 0) await pause(20)
  }

  /** The response status of a plain request; 0 if there is no response. */
  async status(path = `/v1/sessions/${this.started.sessionId}`, by = token): Promise<number> {
    const headers = { authorization: `Bearer ${by}`, connection: 'close' }
    try {
      const response = await fetch(`http://127.0.0.1:${this.started.port}${path}`, { headers })
      await response.arrayBuffer()
      return response.status
    } catch {
      return 0
    }
  }

  /** The response status of a request in bytes. */
  async answer(request: string): Promise<number> {
    const socket = await this.open()
    socket.write(request)
    const [start] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    return Number(start.toString('latin1').slice(9, 12))
  }

  figures(): Promise<Figures> {
    return asked<Figures>(this.#process, 'figures')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    const exited = once(this.#process, 'exit')
    this.#process.disconnect()
    await exited
  }
}

/** The head of a request by the caller. */
export function head(method: string, path: string, ...headers: readonly string[]): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: 127.0.0.1', `authorization: Bearer ${token}`]
  return [...lines, ...headers, '', ''].join('\r\n')
}

/** Sends one message at a time, because answers carry no ids. */
async function asked<T>(child: ChildProcess, message: TargetOptions | 'figures' | 'ports'): Promise<T> {
  const before = questions.get(child) ?? Promise.resolve()
  const answer = before.then(async () => {
    child.send(message)
    const [answer] = (await once(child, 'message')) as [T & { readonly error?: string }]
    if (answer.error !== undefined) throw new Error(answer.error)
    return answer
  })
  questions.set(
    child,
    answer.catch(() => undefined),
  )
  return answer
}

const questions = new WeakMap<ChildProcess, Promise<unknown>>()
