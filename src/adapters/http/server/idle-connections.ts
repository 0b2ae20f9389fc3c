import type { Socket } from 'node:net'

/**
 * Destroys a connection when its client sends no further request in time. Node's own timer starts again with each
 * byte, so that blank lines between two requests would keep a connection open for ever.
 */
export class IdleConnections {
  readonly #ms: number
  readonly #timers = new WeakMap<Socket, NodeJS.Timeout>()

  /** 0 for either time means no limit, as in Node. */
  constructor({ keepAliveMs, headersTimeoutMs }: { keepAliveMs: number; headersTimeoutMs: number }) {
    this.#ms = keepAliveMs > 0 && headersTimeoutMs > 0 ? keepAliveMs + headersTimeoutMs : 0
  }

  /** The headers of a request have arrived. */
  begin(socket: Socket): void {
    clearTimeout(this.#timers.get(socket))
  }

  /** The response to the newest request has been sent. */
  end(socket: Socket): void {
    if (this.#ms === 0 || socket.destroyed) return
    const timer = this.#timers.get(socket)
    // A cleared timer cannot start again.
    if (timer === undefined) socket.once('close', () => clearTimeout(this.#timers.get(socket)))
    clearTimeout(timer)
    this.#timers.set(socket, setTimeout(() => socket.destroy(), this.#ms).unref())
  }
}
