import type { IncomingMessage, ServerResponse } from 'node:http'
import { itemAt } from '../../../engine/ports.js'
import { clientGone, type HttpRequest } from './http-messages.js'
import { HttpError } from '../http-error.js'

export interface NodeRequestOptions {
  /** Whether the client waits for `100 Continue` before it sends the body. */
  readonly goOn: boolean
  /** Milliseconds within which a whole JSON body must arrive. No limit by default. */
  readonly bodyMs?: number
  /** Called for each request that may wait for a long time. */
  readonly waiting?: (httpRequest: NodeRequest) => void
}

/** A request to a server of node:http, or of a framework based on it. */
export class NodeRequest implements HttpRequest {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly method: string
  readonly target: string
  readonly hasBody: boolean
  readonly #options: NodeRequestOptions
  #abort: AbortController | undefined
  readonly #overs: (() => void)[] = []

  constructor(incoming: IncomingMessage, outgoing: ServerResponse, options: NodeRequestOptions) {
    this.incoming = incoming
    this.outgoing = outgoing
    this.#options = options
    this.method = incoming.method ?? 'GET'
    this.target = incoming.url ?? '/'
    const { headers } = incoming
    this.hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
  }

  header(name: string): string | undefined {
    const value = this.incoming.headers[name]
    return typeof value === 'string' ? value : undefined
  }

  repeats(name: string): boolean {
    const { rawHeaders } = this.incoming
    let found = 0
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const header = itemAt(rawHeaders, at)
      if (header.length === name.length && header.toLowerCase() === name) found++
    }
    return found > 1
  }

  readBody(take: (piece: Uint8Array) => void): Promise<void> {
    const incoming = this.#unread()
    return new Promise((resolve, reject) => {
      // If the client has disconnected during authentication, no further event occurs.
      if (incoming.destroyed) {
        reject(clientGone())
        return
      }
      const release = (): void => {
        clearTimeout(timer)
        incoming.off('data', data).off('end', end).off('close', gone)
      }
      const data = (piece: Uint8Array): void => {
        try {
          take(piece)
        } catch (error) {
          release()
          incoming.pause()
          reject(error)
        }
      }
      const end = (): void => {
        release()
        resolve()
      }
      const gone = (): void => {
        release()
        reject(clientGone())
      }
      const late = (): void => {
        release()
        incoming.pause()
        reject(new HttpError('REQUEST_TIMEOUT', `the body did not arrive within ${bodyMs} ms`))
      }
      const { bodyMs } = this.#options
      const timer = bodyMs === undefined ? undefined : setTimeout(late, bodyMs)
      incoming.on('data', data).on('end', end).on('close', gone)
    })
  }

  async *body(): AsyncGenerator<Uint8Array, void, undefined> {
    const incoming = this.#unread()
    try {
      if (!incoming.destroyed) yield* incoming.iterator({ destroyOnReturn: false })
    } catch {
      throw clientGone()
    }
    if (!incoming.complete) throw clientGone()
  }

  #unread(): IncomingMessage {
    if (this.incoming.readableDidRead)
      throw new Error('the body of the request was already read before the handler received it')
    if (this.#options.goOn) this.outgoing.writeContinue()
    return this.incoming
  }

  signal(): AbortSignal {
    if (this.#abort === undefined) this.#options.waiting?.(this)
    return this.gone()
  }

  gone(): AbortSignal {
    if (this.#abort !== undefined) return this.#abort.signal
    const abort = (this.#abort = new AbortController())
    const gone = (): void => abort.abort(clientGone())
    if (this.isGone()) gone()
    else this.onOver(gone)
    return abort.signal
  }

  isGone(): boolean {
    return this.outgoing.destroyed || this.incoming.socket.destroyed
  }

  /**
   * Registers a callback that runs after the response was sent or the connection closed. Callbacks run in
   * reverse order.
   */
  onOver(over: () => void): void {
    if (this.#overs.push(over) > 1) return
    const { outgoing } = this
    let isOver = false
    const end = (): void => {
      if (isOver) return
      isOver = true
      for (let index = this.#overs.length - 1; index >= 0; index--) itemAt(this.#overs, index)()
    }
    outgoing.on('close', end)
    if (outgoing.socket !== null) return
    // When the connection closes, a pipelined response that has no socket yet gets no `close` event.
    const { socket } = this.incoming
    socket.once('close', end)
    outgoing.once('close', () => socket.off('close', end))
  }

  /** Ends a stream or a wait for a lock, and sends the reason to the client. */
  abort(reason: Error): void {
    this.gone()
    this.#abort?.abort(reason)
  }

  request(): Request {
    const headers = new Headers()
    for (const [name, values] of Object.entries(this.incoming.headersDistinct))
      for (const value of values ?? []) headers.append(name, value)
    const { method, target } = this
    const url = target.startsWith('/') ? `http://${this.header('host') ?? 'localhost'}${target}` : target
    return new Request(url, { method, headers })
  }
}
