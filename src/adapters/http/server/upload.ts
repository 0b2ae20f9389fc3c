import { clientGone, type HttpRequest } from './http-messages.js'
import { HttpError } from '../http-error.js'
import { pieceBytes } from '../limits.js'

export interface UploadOptions {
  readonly stalledMs: number
  /** Waits for a share of the memory budget. */
  readonly enter: () => Promise<void> | undefined
  /** Takes the bytes of a piece that stays in memory, or throws. */
  readonly hold?: (piece: Uint8Array) => void
}

/**
 * The body of a request as a stream that can be read once. The first read reserves memory. Reading fails with
 * REQUEST_TIMEOUT if the client takes over `stalledMs` to send 512 KiB; pauses of the reader do not count.
 */
export class Upload implements AsyncIterable<Uint8Array> {
  readonly #httpRequest: HttpRequest
  readonly #stalledMs: number
  readonly #enter: UploadOptions['enter']
  readonly #hold: UploadOptions['hold']
  /** Resolves when reading has ended: at the end of the body, when the reader stops early, or on an error. */
  readonly ended: Promise<void>
  #end!: () => void
  #started = false
  #abandoned = false

  constructor(httpRequest: HttpRequest, { stalledMs, enter, hold }: UploadOptions) {
    this.#httpRequest = httpRequest
    this.#stalledMs = stalledMs
    this.#enter = enter
    this.#hold = hold
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  /** Whether reading has begun. */
  get started(): boolean {
    return this.#started
  }

  /** Makes the first read fail, if it has not started yet. It has no effect after reading has started. */
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
      pieces = this.#httpRequest.body()[Symbol.asyncIterator]()
      for (;;) {
        const started = performance.now()
        const next = await this.#inTime(pieces.next(), this.#stalledMs - waitedMs)
        if (next.done === true) return
        bytes += next.value.byteLength
        waitedMs += performance.now() - started
        if (bytes >= pieceBytes) bytes = waitedMs = 0
        this.#hold?.(next.value)
        yield next.value
      }
    } finally {
      // Not awaited, because it waits for a pending read, which may never settle.
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
