import { present } from '../../base/present.js'
import { createEmitter } from '../../base/emitter.js'
import type { Environment } from '../../base/environment.js'
import type { TextGlob } from '../../base/glob.js'
import { limits } from '../../base/limits.js'
import { nextTurn, TimeSlice } from '../../base/cooperative.js'
import { newMessage, type KeptMessage } from './bus-message.js'
import type { BusQuery, Publication } from './bus-requests.js'
import type { Subscription } from './bus-subscription.js'
import { checkQuota } from '../quota.js'

/** The channels of a subscriber. A letter precedes a topic or pattern. */
type Channels = `t${string}` | `p${string}` | 'all' | 'dropped'

interface UsedPattern {
  readonly glob: TextGlob
  subscribers: number
}

/** The subscribers of a session. */
class Hub {
  readonly emitter = createEmitter<Record<Channels, KeptMessage>>()
  readonly subscribers = new Set<Subscription>()
  unfollow: (() => void) | undefined
  /** The different patterns of all subscribers. Each is matched once for each message. */
  readonly patterns = new Map<string, UsedPattern>()
  patternSize = 0

  use(glob: TextGlob): void {
    const known = this.patterns.get(glob.pattern)
    if (known !== undefined) known.subscribers++
    else {
      this.patterns.set(glob.pattern, { glob, subscribers: 1 })
      this.patternSize += glob.size
    }
  }

  release({ pattern, size }: TextGlob): void {
    const used = present(this.patterns.get(pattern), 'the pattern of a subscription')
    if (--used.subscribers > 0) return
    this.patterns.delete(pattern)
    this.patternSize -= size
  }

  off(name: Channels, handler: (message: KeptMessage) => void): void {
    this.emitter.off(name, handler)
    // The emitter keeps an empty list for every name that ever had a handler.
    if (this.emitter.all.get(name)?.length === 0) this.emitter.all.delete(name)
  }
}

/**
 * The messages of one session and their subscribers. A message gets its number when it is published. At that
 * moment it is kept, and older messages are dropped. It is delivered when it is stored, in the order of the
 * numbers.
 */
export class BusChannel {
  #hub = new Hub()
  readonly #kept: KeptMessage[] = []
  #keptBytes = 0
  #newest = 0
  #delivered = 0
  /** Resolves when every message published so far is delivered, or could not be stored. */
  #settled: Promise<void> = Promise.resolve()
  /** Counts since the last pause that was made for subscribers. */
  #inARow = { messages: 0, bytes: 0, deliveries: 0 }

  /** The number of messages that are kept for replay. */
  get keptCount(): number {
    return this.#kept.length
  }

  /** The bytes of the payloads of kept messages. */
  get keptBytes(): number {
    return this.#keptBytes
  }

  /** Adds a stored message. Messages must be added in order. */
  restore(message: KeptMessage): void {
    this.#keep(message)
    this.#delivered = message.seq
  }

  /**
   * Continues with the subscribers of an earlier channel of the session, after all of its deliveries. They receive the
   * messages that other engines published meanwhile, in order.
   */
  takeOver(earlier: BusChannel, environment: Environment): void {
    this.#hub = earlier.#hub
    const newest = this.#newest
    this.#delivered = 0
    this.#settled = earlier.#settled.then(async () => {
      const missed = this.#kept.filter(({ seq }) => seq > earlier.#delivered && seq <= newest)
      this.#delivered = earlier.#delivered
      for (const message of missed) await this.#emit(message, environment)
      this.#delivered = Math.max(this.#delivered, newest)
    })
  }

  /** Adds a publication. Returns its message, and the older messages that were dropped for it. */
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
    if (newestDropped !== undefined) this.#hub.emitter.emit('dropped', newestDropped)
    return { message, dropped }
  }

  /** Resolves when this message and all earlier ones are delivered. Rejects with the error of `stored`. */
  deliver(message: KeptMessage, stored: Promise<void>, environment: Environment): Promise<void> {
    const pause = this.#pauseAfter(message) ? nextTurn : undefined
    const before = this.#settled
    // `stored` may reject while earlier messages are still being stored.
    stored.catch(() => undefined)
    const delivered = before.then(() => stored).then(() => this.#emit(message, environment))
    this.#settled = delivered.then(pause, () => undefined)
    return delivered
  }

  /**
   * Adds a subscription. Calls `follow` for the first subscriber, and the function that it returned when the
   * last one leaves.
   *
   * @throws {EngineError} QUOTA when there are too many subscribers or patterns
   */
  subscribe(
    subscription: Subscription,
    query: BusQuery,
    { environment, follow }: { readonly environment: Environment; readonly follow: () => () => void },
  ): void {
    const { topics, patterns, replay } = query
    const hub = this.#hub
    checkQuota('subscribers', hub.subscribers.size + 1, limits.busSubscribers)
    const fresh = [...new Map(patterns.map((glob) => [glob.pattern, glob])).values()].filter(
      ({ pattern }) => !hub.patterns.has(pattern),
    )
    const patternSize = fresh.reduce((sum, { size }) => sum + size, hub.patternSize)
    checkQuota('characters in topic patterns', patternSize, limits.busPatternSize)

    const receive = (message: KeptMessage): void => subscription.receive(message)
    const drop = ({ seq }: KeptMessage): void => subscription.dropped(seq)
    const names: Channels[] = [
      ...[...topics].map((topic) => `t${topic}` as const),
      ...patterns.map(({ pattern }) => `p${pattern}` as const),
    ]
    if (names.length === 0) names.push('all')
    for (const name of names) hub.emitter.on(name, receive)
    if (replay !== undefined) hub.emitter.on('dropped', drop)
    for (const glob of patterns) hub.use(glob)
    hub.subscribers.add(subscription)
    subscription.start(this.#newest, () => {
      for (const name of names) hub.off(name, receive)
      if (replay !== undefined) hub.off('dropped', drop)
      for (const glob of patterns) hub.release(glob)
      hub.subscribers.delete(subscription)
      if (hub.subscribers.size === 0) hub.unfollow?.()
    })
    if (hub.subscribers.size === 1) hub.unfollow = follow()
    if (replay !== undefined) {
      const oldest = (): number => this.#kept[0]?.seq ?? 0
      subscription.startReplay(this.#search(query, replay, environment), oldest)
    }
  }

  /** Ends all subscriptions, after all messages published before. */
  end(how: { readonly error?: Error }): void {
    this.#settled.then(
      () => {
        for (const subscription of this.#hub.subscribers) subscription.end(how)
      },
      () => undefined,
    )
  }

  #keep(message: KeptMessage): void {
    this.#newest = message.seq
    this.#kept.push(message)
    this.#keptBytes += message.payload.byteLength
  }

  /**
   * Delivers a message, synchronously if that is quick. A subscription made meanwhile starts after this
   * message.
   */
  #emit(message: KeptMessage, environment: Environment): void | Promise<void> {
    this.#delivered = message.seq
    const { topic, payload } = message
    const copied = payload.byteLength * this.#hub.subscribers.size
    if (this.#hub.patternSize * topic.length > limits.busMatchesPerTurn || copied > limits.busBytesPerTurn)
      return this.#emitInSlices(message, environment)
    this.#hub.emitter.emit('all', message)
    this.#hub.emitter.emit(`t${topic}`, message)
    for (const { glob } of this.#hub.patterns.values()) {
      if (glob.matches(topic)) this.#hub.emitter.emit(`p${glob.pattern}`, message)
    }
  }

  /** Delivers a message, with turns of the event loop between long matches and after many copied bytes. */
  async #emitInSlices(message: KeptMessage, environment: Environment): Promise<void> {
    const slice = new TimeSlice(environment)
    let bytes = 0
    const deliver = async (name: Channels): Promise<void> => {
      for (const receive of this.#hub.emitter.all.get(name)?.slice() ?? []) {
        ;(receive as (message: KeptMessage) => void)(message)
        bytes += message.payload.byteLength
        if (bytes < limits.busBytesPerTurn) continue
        bytes = 0
        await slice.next()
      }
    }
    await deliver('all')
    await deliver(`t${message.topic}`)
    for (const { glob } of this.#hub.patterns.values()) {
      if (glob.matches(message.topic)) await deliver(`p${glob.pattern}`)
      if (slice.over) await slice.next()
    }
  }

  /**
   * Whether the event loop gets a turn after this message. Many commits may be acknowledged at one moment. A
   * subscriber that takes each message at once must not count as too slow then, and delivery to many
   * subscribers takes long.
   */
  #pauseAfter({ payload }: KeptMessage): boolean {
    this.#inARow.messages += 1
    this.#inARow.bytes += payload.byteLength
    this.#inARow.deliveries += this.#hub.subscribers.size
    const { messages, bytes, deliveries } = this.#inARow
    if (
      messages < limits.busWaitingMessages / 2 &&
      bytes < limits.busWaitingBytes / 2 &&
      deliveries < limits.busDeliveriesPerTurn
    )
      return false
    this.#inARow = { messages: 0, bytes: 0, deliveries: 0 }
    return true
  }

  /**
   * Waits until the published messages are stored, then returns the newest `limit` matching messages after
   * `after`.
   */
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
      for (const pattern of patterns) {
        if (matches) break
        matches = pattern.matches(topic)
        if (slice.over) await slice.next()
      }
      if (matches) found.push(message)
    }
    return found.reverse()
  }
}
