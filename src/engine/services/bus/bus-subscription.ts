import { present } from '../../base/present.js'
import { onAbort } from '../../base/abort.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { encodeSeq } from '../../storage/keys.js'
import { show, type KeptMessage } from './bus-message.js'
import type { BusMessage } from './bus-requests.js'

/** The messages of a subscription, as they arrive. Iterate it once. Leaving the loop, or {@link return}, ends it. */
export interface BusSubscription extends AsyncIterable<BusMessage>, AsyncDisposable {
  /**
   * Resolves when the subscription is open. Rejects with the error of the first {@link next} if it never opened.
   * Callers need not await or handle it.
   */
  readonly opened: Promise<void>
  /**
   * The id after which the messages start, replayed or new. Another subscription with this id as
   * `replayAfterMessageId` gets the same messages, as far as they are still stored. Resolves when the replay is known,
   * and rejects as {@link opened} does. Callers need not await or handle it.
   */
  readonly startsAfter: Promise<string>
  /**
   * Resolves with the next message, or with `done` after the end. Several calls may wait at once; they get the
   * messages in order.
   *
   * @throws {EngineError} INVALID_ARGUMENT, PERMISSION_DENIED, SESSION_NOT_FOUND or QUOTA when the subscription could
   *   not open
   * @throws {EngineError} SLOW_CONSUMER when more than 10,000 messages or 2 MiB of payloads waited for this subscriber
   * @throws {EngineError} STORE_FAILED when a write of the session failed
   *
   * @example
   * const subscription = session.bus.subscribe({ topics: ['tests:done'] })
   * const { value: message } = await subscription.next()
   */
  next(): Promise<IteratorResult<BusMessage, undefined>>
  /**
   * Ends the subscription at once. Waiting messages are dropped, and each waiting {@link next} resolves with `done`.
   *
   * @example
   * const subscription = session.bus.subscribe()
   * await subscription.return()
   */
  return(): Promise<IteratorResult<BusMessage, undefined>>
  /**
   * The subscription itself.
   *
   * @example
   * for await (const { topic } of session.bus.subscribe({ topicPatterns: ['tests:*'] })) {
   *   if (topic === 'tests:done') break
   * }
   */
  [Symbol.asyncIterator](): BusSubscription
}

interface Taker {
  readonly resolve: (result: IteratorResult<BusMessage, undefined>) => void
  readonly reject: (error: unknown) => void
}

/**
 * The presence of `error` matters, not its value, because a signal may abort with any value, even undefined.
 */
interface Ending {
  readonly error?: unknown
}

const done = { done: true, value: undefined } as const

/**
 * The side of one subscriber: its queued messages and waiting calls. It knows neither topics nor sessions.
 */
export class Subscription implements BusSubscription {
  readonly opened: Promise<void>
  readonly startsAfter: Promise<string>
  readonly #sessionId: string
  /**
   * Messages from before the subscription. They do not count as waiting as long as the bus keeps them anyway.
   */
  #replay: KeptMessage[] = []
  /** The number of messages at the start of the replay that the bus no longer keeps. */
  #dropped = 0
  #searching = false
  /** Messages published after the start of the subscription. */
  #queue: KeptMessage[] = []
  /** The bytes of the queue, and of the replayed messages that the bus no longer keeps. */
  #bytes = 0
  readonly #takers: Taker[] = []
  /** The number of the newest received message. */
  #newest = 0
  #start: string | Promise<string> = ''
  /** Once set, no more messages are received. Waiting messages are still delivered. */
  #end: Ending | undefined
  #slow = false
  /** The error was thrown, or there is no error to throw. */
  #notified = false
  #unsubscribe: (() => void) | undefined
  #releaseSignal: (() => void) | undefined

  /** If `register` throws or rejects, the subscription ends with that error. */
  constructor(sessionId: string, register: (subscription: Subscription) => Promise<void>) {
    this.#sessionId = sessionId
    this.opened = this.#open(register)
    this.opened.catch((error: unknown) => this.end({ error }))
    this.startsAfter = this.opened.then(() => this.#start)
    this.startsAfter.catch(() => undefined)
  }

  get ended(): boolean {
    return this.#end !== undefined
  }

  /** Ends the subscription when the signal aborts. Throws the reason of a signal that is already aborted. */
  abortWith(signal: AbortSignal | undefined): void {
    signal?.throwIfAborted()
    this.#releaseSignal = signal && onAbort(signal, () => this.#stop({ error: signal.reason }))
  }

  /**
   * From now on, messages after `newest` are received. `unsubscribe` is called when no more messages are wanted.
   */
  start(newest: number, unsubscribe: () => void): void {
    this.#newest = newest
    this.#start = encodeSeq(newest)
    this.#unsubscribe = unsubscribe
  }

  /**
   * Delivers no message until the replay has been found. `oldest` returns the oldest message that the bus
   * still keeps.
   */
  startReplay(search: Promise<readonly KeptMessage[]>, oldest: () => number): void {
    this.#searching = true
    const found = (messages: readonly KeptMessage[]): void => {
      // The subscription may have been stopped in the meantime.
      if (!this.#searching) return
      this.#searching = false
      this.#replay = [...messages]
      if (this.#slow) this.#cut()
      else this.dropped(oldest() - 1)
      this.#serve()
    }
    search.then(found, (error: unknown) => this.#stop({ error }))
    const newest = this.#newest
    const start = search.then(([first]) => encodeSeq(first === undefined ? newest : first.seq - 1))
    start.catch(() => undefined)
    this.#start = start
  }

  /** Takes messages in order. Ignores a message that was received before. */
  receive(message: KeptMessage): void {
    if (this.#end !== undefined || message.seq <= this.#newest) return
    this.#newest = message.seq
    const taker = this.#searching ? undefined : this.#takers.shift()
    if (taker !== undefined) {
      // If a call is waiting, all earlier messages have been taken.
      taker.resolve(this.#result(message))
      return
    }
    this.#queue.push(message)
    this.#bytes += message.payload.byteLength
    this.#checkWaiting()
  }

  /** Notes that the bus has dropped all messages up to this one. */
  dropped(seq: number): void {
    const before = this.#dropped
    for (let next; (next = this.#replay[this.#dropped]) !== undefined && next.seq <= seq; this.#dropped++) {
      this.#bytes += next.payload.byteLength
    }
    if (this.#dropped > before) this.#checkWaiting()
  }

  /** Ends the subscription. Waiting messages are still delivered, and then the error. */
  end(how: Ending): void {
    if (this.#end !== undefined) return
    this.#end = how
    this.#release()
    this.#serve()
  }

  next(): Promise<IteratorResult<BusMessage, undefined>> {
    return new Promise((resolve, reject) => {
      this.#takers.push({ resolve, reject })
      this.#serve()
    })
  }

  return(): Promise<IteratorResult<BusMessage, undefined>> {
    this.#stop({})
    return Promise.resolve(done)
  }

  [Symbol.asyncIterator](): BusSubscription {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  async #open(register: (subscription: Subscription) => Promise<void>): Promise<void> {
    await register(this)
    if (this.#end !== undefined && 'error' in this.#end) throw this.#end.error
  }

  #serve(): void {
    while (this.#takers.length > 0 && !this.#searching) {
      const message = this.#take()
      if (message === undefined && this.#end === undefined) return
      const { resolve, reject } = present(this.#takers.shift(), 'a waiting call')
      if (message !== undefined) resolve(this.#result(message))
      else if (this.#notified || this.#end === undefined || !('error' in this.#end)) resolve(done)
      else {
        this.#notified = true
        reject(this.#end.error)
      }
    }
  }

  #take(): KeptMessage | undefined {
    const replayed = this.#replay.shift()
    if (replayed !== undefined && this.#dropped === 0) return replayed
    const message = replayed ?? this.#queue.shift()
    if (replayed !== undefined) this.#dropped--
    if (message !== undefined) this.#bytes -= message.payload.byteLength
    return message
  }

  #result(message: KeptMessage): IteratorResult<BusMessage, undefined> {
    return { done: false, value: show(message, this.#sessionId) }
  }

  #checkWaiting(): void {
    if (this.#end !== undefined || mayWait(this.#queue.length + this.#dropped, this.#bytes)) return
    this.#slow = true
    this.#cut()
    const { busWaitingMessages, busWaitingBytes } = limits
    const message = `the subscriber is too slow: over ${busWaitingMessages} messages or ${busWaitingBytes} bytes are queued for it; subscribe again with replayAfterMessageId to continue`
    this.end({ error: new EngineError('SLOW_CONSUMER', message, { limit: String(busWaitingBytes) }) })
  }

  /**
   * Cuts the replay and the messages after it to the size of a queue, because they may wait here for long.
   */
  #cut(): void {
    const waiting: KeptMessage[] = []
    let bytes = 0
    for (const message of [...this.#replay, ...this.#queue]) {
      bytes += message.payload.byteLength
      if (!mayWait(waiting.length + 1, bytes)) break
      waiting.push(message)
    }
    this.#replay = []
    this.#dropped = 0
    this.#queue = waiting
  }

  /** Ends the subscription at once. Waiting messages are not delivered. */
  #stop(how: Ending): void {
    if (this.#notified) return
    this.#end = how
    this.#notified = !('error' in how)
    this.#searching = false
    this.#replay = []
    this.#queue = []
    this.#release()
    this.#serve()
  }

  #release(): void {
    this.#unsubscribe?.()
    this.#releaseSignal?.()
    this.#unsubscribe = undefined
    this.#releaseSignal = undefined
  }
}

function mayWait(messages: number, bytes: number): boolean {
  return messages <= limits.busWaitingMessages && bytes <= limits.busWaitingBytes
}
