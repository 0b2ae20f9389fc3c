import { clientGone, type Exchange } from './exchange.js'
import { HttpError } from '../http-error.js'
import { pieceBytes } from '../limits.js'

export interface UploadOptions {
  readonly stalledMs: number
  /** Waits for room in memory. */
  readonly enter: () => Promise<void> | undefined
}

/**
 * The body of a request as a stream, which can be read once. It takes room in memory when it is first read. Reading
 * fails with REQUEST_TIMEOUT when the client takes over `stalledMs` for 512 KiB; pauses of the reader do not count.
 */
export class Upload implements AsyncIterable<Uint8Array> {
  readonly #exchange: Exchange
  readonly #stalledMs: number
  readonly #enter: UploadOptions['enter']
  /** Resolves when nothing more is read: all has arrived, the reader has left, or reading has failed. */
  readonly ended: Promise<void>
  #end!: () => void
  #started = false
  #abandoned = false

  constructor(exchange: Exchange, { stalledMs, enter }: UploadOptions) {
    this.#exchange = exchange
    this.#stalledMs = stalledMs
    this.#enter = enter
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  /** Whether reading has begun. */
  get started(): boolean {
    return this.#started
  }

  /** Reading fails from here on, unless it has begun. */
  abandon(): void {
    this.#abandoned = true
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#abandoned) throw clientGone()
    this.#started = true
    let pieces: AsyncIterator<Uint8Array> | undefined
    let bytes = 0
    let waitedMs = 0
    try {
      await this.#enter()
      pieces = this.#exchange.body()[Symbol.asyncIterator]()
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
      pieces?.return?.().catch(() => undefined)
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
