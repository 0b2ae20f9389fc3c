import type { BusMessage, BusSubscribeRequest, BusSubscription } from '../../engine/index.js'
import { onAbort, parseAtCall, type OperationResponse } from '../../engine/client-contract.js'
import { checked } from './checked.js'
import { pause } from './deadline.js'
import { fromStatus, isClosing, isOutage } from './errors.js'
import { clientLimits } from './limits.js'
import type { OpenStream, Transport } from './transport.js'

const done = { done: true, value: undefined } as const

type Stream = OpenStream<OperationResponse<'subscribe'>>

/**
 * A subscription that survives lost connections. It reconnects after the last received message, or at its
 * start if none was received. It loses no message that the server still stores, and delivers no message
 * twice.
 */
export class RemoteSubscription implements BusSubscription {
  readonly opened: Promise<void>
  readonly startsAfter: Promise<string>
  readonly #transport: Transport
  readonly #sessionId: string
  #query: Omit<BusSubscribeRequest, 'signal'> = {}
  /** Ends the stream. The cause may be the caller, its signal or the client. */
  readonly #abort = new AbortController()
  #left = false
  readonly #releases: (() => void)[] = []
  readonly #messages: AsyncGenerator<BusMessage, undefined, undefined>

  constructor(transport: Transport, sessionId: string, request: BusSubscribeRequest) {
    this.#transport = transport
    this.#sessionId = sessionId
    const parsed = parseAtCall(() => {
      const { signal, ...query } = checked(request)
      return { signal, query }
    })
    const first = this.#open(parsed)
    first.catch(() => undefined)
    this.opened = first.then(() => undefined)
    this.opened.catch(() => undefined)
    this.startsAfter = first.then(({ startsAfter = '' }) => startsAfter)
    this.startsAfter.catch(() => undefined)
    this.#messages = this.#receive(first)
  }

  next(): Promise<IteratorResult<BusMessage, undefined>> {
    return this.#messages.next()
  }

  return(): Promise<IteratorResult<BusMessage, undefined>> {
    this.#leave()
    // Not awaited, because the generator ends after its pending read is aborted.
    this.#messages.return(undefined).catch(() => undefined)
    this.#release()
    return Promise.resolve(done)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  async #open(
    parsed: () => {
      readonly signal: AbortSignal | undefined
      readonly query: Omit<BusSubscribeRequest, 'signal'>
    },
  ): Promise<Stream> {
    const { signal, query } = parsed()
    this.#query = query
    signal?.throwIfAborted()
    if (signal !== undefined) this.#releases.push(onAbort(signal, () => this.#abort.abort(signal.reason)))
    const { closed } = this.#transport
    if (closed.aborted) this.#leave()
    else this.#releases.push(onAbort(closed, () => this.#leave()))
    try {
      return await this.#connect(this.#query)
    } catch (error) {
      this.#release()
      throw error
    }
  }

  #connect(query: Omit<BusSubscribeRequest, 'signal'>): Promise<Stream> {
    const request = { ...query, sessionId: this.#sessionId }
    return this.#transport.open('subscribe', request, this.#abort.signal)
  }

  async *#receive(first: Promise<Stream>): AsyncGenerator<BusMessage, undefined, undefined> {
    try {
      let stream = await first
      let last = stream.startsAfter
      for (;;) {
        try {
          for await (const item of stream.items) {
            if ('error' in item) throw fromStatus(item.error)
            last = item.result.messageId
            yield item.result
          }
          return undefined
        } catch (error) {
          if (!isOutage(error) || this.#abort.signal.aborted) throw error
          stream = await this.#reconnect(last, error)
        }
      }
    } catch (error) {
      if (this.#left) return undefined
      throw error
    } finally {
      this.#abort.abort()
      this.#release()
    }
  }

  /** Opens the stream again. Throws the last error if the outage lasts longer than `reconnectMs`. */
  async #reconnect(last: string | undefined, lost: unknown): Promise<Stream> {
    const { replayAfterMessageId, replayLimit, ...query } = this.#query
    const replay =
      last !== undefined
        ? { replayAfterMessageId: last }
        : {
            ...(replayAfterMessageId !== undefined && { replayAfterMessageId }),
            ...(replayLimit !== undefined && { replayLimit }),
          }
    const end = performance.now() + this.#transport.settings.reconnectMs
    let error = lost
    for (
      let wait: number = clientLimits.reconnectPauseMs;
      performance.now() + wait <= end;
      wait = Math.min(wait * 2, clientLimits.reconnectPauseMaxMs)
    ) {
      await pause(wait * (0.5 + Math.random() / 2), this.#abort.signal)
      try {
        return await this.#connect({ ...query, ...replay })
      } catch (thrown) {
        if (!isOutage(thrown) && !isClosing(thrown)) throw thrown
        error = thrown
      }
    }
    throw error
  }

  #leave(): void {
    this.#left = true
    this.#abort.abort()
  }

  #release(): void {
    for (const release of this.#releases) release()
    this.#releases.length = 0
  }
}
