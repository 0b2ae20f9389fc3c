import type { MessageBus } from '../services/bus/bus.js'
import {
  parsePublication,
  parseQuery,
  type BusPublishRequest,
  type BusSubscribeRequest,
} from '../services/bus/bus-requests.js'
import { Subscription, type BusSubscription } from '../services/bus/bus-subscription.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * Messages between the clients of a session: subscribers to a topic receive the messages published to it. The last
 * 1,000 messages, or 16 MiB of payload if that is less, are kept for later subscribers. A durable storage keeps them
 * when the engine closes. Forks start without any.
 */
export class SessionBus {
  readonly #access: SessionAccess
  readonly #service: MessageBus

  /** @internal */
  constructor(access: SessionAccess, service: MessageBus) {
    this.#access = access
    this.#service = service
  }

  /**
   * Publishes a message. Resolves once it is stored. Every subscriber receives the messages of a session in the order
   * of the calls, and each message only once it is stored.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the topic is empty.
   * @throws {EngineError} TOO_LARGE when the payload is over 1 MiB, or the topic over 1,024 bytes.
   *
   * @example
   * await session.bus.publish({ topic: 'tests:done', payload: JSON.stringify({ failed: 0 }) })
   */
  async publish(request: BusPublishRequest): Promise<{
    /** The id of the message. Ids sort in the order of the messages. */
    messageId: string
  }> {
    const publication = parsePublication(request)
    return this.#access.run('publishMessage', (live) =>
      this.#service.publish(this.#access.core, live, publication),
    )
  }

  /**
   * Messages published after this call, in this process, and earlier ones if the request asks for a replay. There is
   * no gap or repeat between the two. A replay cannot have messages that are no longer kept.
   *
   * It never throws. An invalid request or an aborted signal rejects the first `next()`, and `opened`.
   *
   * The iteration ends when its loop is left, when the session is deleted, and after the last message when the engine
   * is closed. It fails with the signal's reason at once, and with other errors after the messages received before.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted.
   * @throws {EngineError} QUOTA when the session would have over 1,000 subscribers.
   * @throws {EngineError} STORE_FAILED when a write failed.
   * @throws {EngineError} SLOW_CONSUMER when over 10,000 messages or 2 MiB of payload would wait for this subscriber.
   * A replay does not count as long as its messages are kept anyway.
   *
   * @example
   * for await (const { topic, payload } of session.bus.subscribe({ topicPatterns: ['tests:*'] }))
   *   console.log(topic, payload.byteLength)
   */
  subscribe(request: BusSubscribeRequest = {}): BusSubscription {
    return new Subscription(this.#access.sessionId, async (subscription) => {
      const { query, signal } = parseQuery(request)
      subscription.abortWith(signal)
      // Nothing is awaited before: the call takes its place among others now.
      await this.#access.look('subscribe', (live) =>
        this.#service.subscribe(this.#access.core, live, subscription, query),
      )
    })
  }
}
