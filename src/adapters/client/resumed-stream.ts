import { onAbort, parseAtCall, present } from '../../engine/client-contract.js'
import { checked } from './checked.js'
import { pause } from './deadline.js'
import { fromStatus, isClosing, isOutage } from './errors.js'
import { clientLimits } from './limits.js'
import type { OpenStream, Transport } from './transport.js'

const done = { done: true, value: undefined } as const

/** A line of a stream: an item, or the error that ends the stream. */
type Line<Item> = { readonly result: Item } | { readonly error: Parameters<typeof fromStatus>[0] }

/** How to open a stream, and how to continue it after an item. */
export interface StreamSource<Query, Item> {
  readonly open: (transport: Transport, query: Query, signal: AbortSignal) => Promise<OpenStream<Line<Item>>>
  readonly idOf: (item: Item) => string
  /** The query for the items after one of them; without an id, after none. */
  readonly after: (query: Query, id: string | undefined) => Query
}

/**
 * A stream that survives lost connections. It reconnects after the last received item, or at its start if none was
 * received. It loses no item that the server still has, and delivers no item twice.
 */
export class ResumedStream<Query extends object, Item> {
  readonly opened: Promise<void>
  readonly startsAfter: Promise<string>
  readonly #transport: Transport
  readonly #source: StreamSource<Query, Item>
  #query: Query | undefined
  /** Ends the stream. The cause may be the caller, its signal or the client. */
  readonly #abort = new AbortController()
  #left = false
  readonly #releases: (() => void)[] = []
  readonly #items: AsyncGenerator<Item, undefined, undefined>

  constructor(
    transport: Transport,
    source: StreamSource<Query, Item>,
    request: Query & { readonly signal?: AbortSignal },
  ) {
    this.#transport = transport
    this.#source = source
    const parsed = parseAtCall(() => {
      const { signal, ...query } = checked(request)
      return { signal, query: query as unknown as Query }
    })
    const first = this.#open(parsed)
    first.catch(() => undefined)
    this.opened = first.then(() => undefined)
    this.opened.catch(() => undefined)
    this.startsAfter = first.then(({ startsAfter = '' }) => startsAfter)
    this.startsAfter.catch(() => undefined)
    this.#items = this.#receive(first)
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    return this.#items.next()
  }

  return(): Promise<IteratorResult<Item, undefined>> {
    this.#leave()
    // Not awaited, because the generator ends after its pending read is aborted.
    this.#items.return(undefined).catch(() => undefined)
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
    parsed: () => { readonly signal: AbortSignal | undefined; readonly query: Query },
  ): Promise<OpenStream<Line<Item>>> {
    const { signal, query } = parsed()
    this.#query = query
    signal?.throwIfAborted()
    if (signal !== undefined) this.#releases.push(onAbort(signal, () => this.#abort.abort(signal.reason)))
    const { closed } = this.#transport
    if (closed.aborted) this.#leave()
    else this.#releases.push(onAbort(closed, () => this.#leave()))
    try {
      return await this.#connect(query)
    } catch (error) {
      this.#release()
      throw error
    }
  }

  #connect(query: Query): Promise<OpenStream<Line<Item>>> {
    return this.#source.open(this.#transport, query, this.#abort.signal)
  }

  async *#receive(first: Promise<OpenStream<Line<Item>>>): AsyncGenerator<Item, undefined, undefined> {
    try {
      let stream = await first
      let last = stream.startsAfter
      for (;;) {
        try {
          for await (const item of stream.items) {
            if ('error' in item) throw fromStatus(item.error)
            last = this.#source.idOf(item.result)
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
  async #reconnect(last: string | undefined, lost: unknown): Promise<OpenStream<Line<Item>>> {
    const query = this.#source.after(present(this.#query, 'query'), last)
    const end = performance.now() + this.#transport.settings.reconnectMs
    let error = lost
    for (
      let wait: number = clientLimits.reconnectPauseMs;
      performance.now() + wait <= end;
      wait = Math.min(wait * 2, clientLimits.reconnectPauseMaxMs)
    ) {
      await pause(wait * (0.5 + Math.random() / 2), this.#abort.signal)
      try {
        return await this.#connect(query)
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
