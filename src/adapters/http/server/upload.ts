import type { Exchange } from './exchange.js'
import { HttpError } from '../http-error.js'
import { pieceBytes } from '../limits.js'

/**
 * The body of a request as a stream, which can be read once. Reading fails with REQUEST_TIMEOUT when the client takes
 * over `stalledMs` for 512 KiB; the time in which nobody reads does not count.
 */
export class Upload implements AsyncIterable<Uint8Array> {
  readonly #exchange: Exchange
  readonly #stalledMs: number
  /** Resolves when nothing more is read: all has arrived, the reader has left, or reading has failed. */
  readonly ended: Promise<void>
  #end!: () => void

  constructor(exchange: Exchange, stalledMs: number) {
    this.#exchange = exchange
    this.#stalledMs = stalledMs
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    const pieces = this.#exchange.body()[Symbol.asyncIterator]()
    let bytes = 0
    let waitedMs = 0
    try {
      for (;;) {
        const started = performance.now()
        const next = await this.#inTime(pieces.next(), this.#stalledMs - waitedMs)
        if (next.done === true) return
        bytes += next.value.byteLength
        waitedMs += performance.now() - started
        if (bytes >= pieceBytes) bytes = waitedMs = 0
        yield next.value
      }
    } finally {
      // It waits for what was asked for, which may never come.
      pieces.return?.().catch(() => undefined)
      this.#end()
    }
  }

  async #inTime<T>(work: Promise<T>, ms: number): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const limit = String(this.#stalledMs)
        reject(
          new HttpError('REQUEST_TIMEOUT', `the client took over ${limit} ms to send ${pieceBytes} bytes`, {
            limit,
          }),
        )
      }, ms)
    })
    try {
      return await Promise.race([work, late])
    } finally {
      clearTimeout(timer)
    }
  }
}
