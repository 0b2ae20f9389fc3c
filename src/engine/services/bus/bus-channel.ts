import { present } from '../../base/present.js'
import { createEmitter } from '../../base/emitter.js'
import type { Environment } from '../../base/environment.js'
import type { TextGlob } from '../../base/glob.js'
import { limits } from '../../base/limits.js'
import { nextTurn, TimeSlice } from '../../base/slices.js'
import { newMessage, type KeptMessage } from './bus-message.js'
import type { BusQuery, Publication } from './bus-requests.js'
import type { Subscription } from './bus-subscription.js'
import { checkQuota } from '../quota.js'

/** The channels of a subscriber; a letter precedes the name of a topic or pattern. */
type Channels = `t${string}` | `p${string}` | 'all' | 'dropped'

/** Signs of patterns times characters of a topic that are matched without a look at the clock. */
const quickMatches = 2 ** 18
/** Messages times subscribers that are handed over before the event loop gets a turn. */
const quickDeliveries = 10_000
/** Bytes that subscribers may copy before the event loop gets a turn. */
const quickBytes = 8 * 2 ** 20

interface UsedPattern {
  readonly glob: TextGlob
  subscribers: number
}

/**
 * The messages of one session and their subscribers. Messages are numbered, kept and dropped when they are
 * published, and delivered when they are stored, in the order of their numbers.
 */
export class BusChannel {
  readonly #emitter = createEmitter<Record<Channels, KeptMessage>>()
  readonly #subscribers = new Set<Subscription>()
  #unfollow: (() => void) | undefined
  /** The different patterns of all subscribers: each is matched once for a message. */
  readonly #patterns = new Map<string, UsedPattern>()
  #patternSize = 0
  readonly #kept: KeptMessage[] = []
  #keptBytes = 0
  #newest = 0
  #delivered = 0
  /** Resolves when all that was published so far is delivered, or was not stored. */
  #settled: Promise<void> = Promise.resolve()
  /** Since subscribers got a turn, by force. */
  #inARow = { messages: 0, bytes: 0, deliveries: 0 }

  /** Messages that are kept for replay. */
  get keptCount(): number {
    return this.#kept.length
  }

  /** Of their payloads. */
  get keptBytes(): number {
    return this.#keptBytes
  }

  /** Adds a stored message. Messages must be added in order. */
  restore(message: KeptMessage): void {
    this.#keep(message)
    this.#delivered = message.seq
  }

  /** The next message, and the messages it displaces. */
  add(
    publication: Publication,
    by: { readonly senderId: string; readonly at: number },
  ): { readonly message: KeptMessage; readonly dropped: readonly KeptMessage[] } {
    const at = Math.max(by.at, this.#kept.at(-1)?.at ?? by.at)
    const message = newMessage(publication, { seq: this.#newest + 1, senderId: by.senderId, at })
    this.#keep(message)
    const dropped: KeptMessage[] = []
    const { busKeptMessages, busKeptBytes } = limits
    while (this.#kept.length > 1 && (this.#kept.length > busKeptMessages || this.#keptBytes > busKeptBytes)) {
      const oldest = present(this.#kept.shift(), 'the oldest message')
      this.#keptBytes -= oldest.payload.byteLength
      dropped.push(oldest)
    }
    const newestDropped = dropped.at(-1)
    if (newestDropped !== undefined) this.#emitter.emit('dropped', newestDropped)
    return { message, dropped }
  }

  /** Resolves when it and all before it are delivered; rejects with the error of `stored`. */
  deliver(message: KeptMessage, stored: Promise<void>, environment: Environment): Promise<void> {
    const pause = this.#pauseAfter(message) ? nextTurn : undefined
    const before = this.#settled
    // It may fail while earlier messages are still being stored.
    stored.catch(() => undefined)
    const delivered = before.then(() => stored).then(() => this.#emit(message, environment))
    this.#settled = delivered.then(pause, () => undefined)
    return delivered
  }

  /** QUOTA. `follow` is called for the first subscriber, and its result when the last has left. */
  subscribe(
    subscription: Subscription,
    query: BusQuery,
    { environment, follow }: { readonly environment: Environment; readonly follow: () => () => void },
  ): void {
    const { topics, patterns, replay } = query
    checkQuota('subscribers', this.#subscribers.size + 1, limits.busSubscribers)
    const fresh = [...new Map(patterns.map((glob) => [glob.pattern, glob])).values()].filter(
      ({ pattern }) => !this.#patterns.has(pattern),
    )
    const patternSize = fresh.reduce((sum, { size }) => sum + size, this.#patternSize)
    checkQuota('characters in topic patterns', patternSize, limits.busPatternSize)

    const receive = (message: KeptMessage): void => subscription.receive(message)
    const drop = ({ seq }: KeptMessage): void => subscription.dropped(seq)
    const names: Channels[] = [
      ...[...topics].map((topic) => `t${topic}` as const),
      ...patterns.map(({ pattern }) => `p${pattern}` as const),
    ]
    if (names.length === 0) names.push('all')
    for (const name of names) this.#emitter.on(name, receive)
    if (replay !== undefined) this.#emitter.on('dropped', drop)
    for (const glob of patterns) this.#use(glob)
    this.#subscribers.add(subscription)
    subscription.start(this.#newest, () => {
      for (const name of names) this.#off(name, receive)
      if (replay !== undefined) this.#off('dropped', drop)
      for (const glob of patterns) this.#release(glob)
      this.#subscribers.delete(subscription)
      if (this.#subscribers.size === 0) this.#unfollow?.()
    })
    if (this.#subscribers.size === 1) this.#unfollow = follow()
    if (replay !== undefined) {
      const oldest = (): number => this.#kept[0]?.seq ?? 0
      subscription.startReplay(this.#search(query, replay, environment), oldest)
    }
  }

  /** Ends all subscriptions, after all messages published before. */
  end(how: { readonly error?: Error }): void {
    this.#settled.then(
      () => {
        for (const subscription of this.#subscribers) subscription.end(how)
      },
      () => undefined,
    )
  }

  #keep(message: KeptMessage): void {
    this.#newest = message.seq
    this.#kept.push(message)
    this.#keptBytes += message.payload.byteLength
  }

  /** Synchronous if that is quick. Subscriptions made meanwhile start after this message anyway. */
  #emit(message: KeptMessage, environment: Environment): void | Promise<void> {
    this.#delivered = message.seq
    const { topic, payload } = message
    const copied = payload.byteLength * this.#subscribers.size
    if (this.#patternSize * topic.length > quickMatches || copied > quickBytes)
      return this.#emitInSlices(message, environment)
    this.#emitter.emit('all', message)
    this.#emitter.emit(`t${topic}`, message)
    for (const { glob } of this.#patterns.values()) {
      if (glob.matches(topic)) this.#emitter.emit(`p${glob.pattern}`, message)
    }
  }

  /** The event loop gets turns between matches that are long, and between subscribers who copy much. */
  async #emitInSlices(message: KeptMessage, environment: Environment): Promise<void> {
    const slice = new TimeSlice(environment)
    let bytes = 0
    const deliver = async (name: Channels): Promise<void> => {
      for (const receive of this.#emitter.all.get(name)?.slice() ?? []) {
        ;(receive as (message: KeptMessage) => void)(message)
        bytes += message.payload.byteLength
        if (bytes < quickBytes) continue
        bytes = 0
        await slice.next()
      }
    }
    await deliver('all')
    await deliver(`t${message.topic}`)
    for (const { glob } of this.#patterns.values()) {
      if (glob.matches(message.topic)) await deliver(`p${glob.pattern}`)
      if (slice.over) await slice.next()
    }
  }

  /**
   * Whether the event loop gets a turn after this message. Many commits may be acknowledged at one moment: a
   * subscriber that takes each message at once must not be too slow for them, and many subscribers take long.
   */
  #pauseAfter({ payload }: KeptMessage): boolean {
    this.#inARow.messages += 1
    this.#inARow.bytes += payload.byteLength
    this.#inARow.deliveries += this.#subscribers.size
    const { messages, bytes, deliveries } = this.#inARow
    if (
      messages < limits.busWaitingMessages / 2 &&
      bytes < limits.busWaitingBytes / 2 &&
      deliveries < quickDeliveries
    )
      return false
    this.#inARow = { messages: 0, bytes: 0, deliveries: 0 }
    return true
  }

  /** The kept messages that match, once stored: the newest `limit` of those after `after`. */
  async #search(
    { topics, patterns }: BusQuery,
    { after, limit }: NonNullable<BusQuery['replay']>,
    environment: Environment,
  ): Promise<KeptMessage[]> {
    const candidates = this.#kept.filter(({ seq }) => seq > after)
    await this.#settled
    const everything = topics.size + patterns.length === 0
    const slice = new TimeSlice(environment)
    const found: KeptMessage[] = []
    while (found.length < limit) {
      const message = candidates.pop()
      if (message === undefined) break
      if (message.seq > this.#delivered) continue
      const { topic } = message
      let matches = everything || topics.has(topic)
      for (let i = 0; i < patterns.length && !matches; i++) {
        matches = patterns[i]!.matches(topic)
        if (slice.over) await slice.next()
      }
      if (matches) found.push(message)
    }
    return found.reverse()
  }

  #use(glob: TextGlob): void {
    const known = this.#patterns.get(glob.pattern)
    if (known !== undefined) known.subscribers++
    else {
      this.#patterns.set(glob.pattern, { glob, subscribers: 1 })
      this.#patternSize += glob.size
    }
  }

  #release({ pattern, size }: TextGlob): void {
    const used = present(this.#patterns.get(pattern), 'the pattern of a subscription')
    if (--used.subscribers > 0) return
    this.#patterns.delete(pattern)
    this.#patternSize -= size
  }

  #off(name: Channels, handler: (message: KeptMessage) => void): void {
    this.#emitter.off(name, handler)
    // The emitter keeps an empty list for every name that it has ever heard.
    if (this.#emitter.all.get(name)?.length === 0) this.#emitter.all.delete(name)
  }
}
