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
 * Messages between the clients of a session: subscribers to a topic get the messages published to it. The last
 * 1,000 messages, or 16 MiB of payload if that is less, are kept for later subscribers, on a durable storage
 * also over a closing of the engine. Forks have none of them.
 */
export class SessionBus {
  readonly #access: SessionAccess
  readonly #service: MessageBus

  constructor(access: SessionAccess, service: MessageBus) {
    this.#access = access
    this.#service = service
  }

  /**
   * Resolves when the message is stored. Every subscriber gets a session's messages in the order of the calls, and
   * each message only once it is stored. TOO_LARGE for a payload over 1 MiB.
   *
   * @example
   * await session.bus.publish({ topic: 'tests:done', payload: JSON.stringify({ failed: 0 }) })
   */
  async publish(request: BusPublishRequest): Promise<{ messageId: string }> {
    const publication = parsePublication(request)
    return this.#access.run('publishMessage', (live) =>
      this.#service.publish(this.#access.core, live, publication),
    )
  }

  /**
   * Messages published after this call, in this process, and earlier ones if a replay is requested; without
   * gap or repeat between the two. Messages no longer kept are not replayed.
   *
   * Never throws: invalid arguments, an aborted signal, PERMISSION_DENIED, SESSION_NOT_FOUND, and
   * QUOTA for over 1,000 subscribers in a session, reject the first `next()`, and `opened`.
   *
   * Ends when the loop is left, when the session is deleted, and when the engine is closed, after the last
   * message. Throws the signal's reason at once, and after the messages received before: STORE_FAILED when a write
   * failed, SLOW_CONSUMER when over 10,000 messages or 2 MiB of payload would have waited for this subscriber.
   * A replay does not count there as long as its messages are kept anyway.
   *
   * @example
   * for await (const { topic, payload } of session.bus.subscribe({ topicPatterns: ['tests:*'], signal }))
   *   show(topic, payload)
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
