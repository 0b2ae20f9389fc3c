import type { BusPublishRequest, BusSubscribeRequest, BusSubscription } from '../../engine/index.js'
import { toBytes } from './bytes.js'
import { Shape } from '../../engine/client-contract.js'
import type { SessionCalls } from './session-calls.js'
import { RemoteSubscription } from './subscription.js'

const publishShape = new Shape<BusPublishRequest>({ topic: true, payload: true })

/**
 * Messages between the clients of a session. Like `session.bus` of a local engine, with the differences
 * below. Each method also throws the errors of {@link connect}.
 */
export class RemoteBus {
  readonly #session: SessionCalls

  /** @internal */
  constructor(session: SessionCalls) {
    this.#session = session
  }

  /**
   * Resolves when the message is stored. Unlike a local engine, it returns no id.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the topic is empty
   * @throws {EngineError} TOO_LARGE when the topic has over 1,024 bytes or the payload over 1 MiB
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted
   *
   * @example
   * await session.bus.publish({ topic: 'tests:done', payload: JSON.stringify({ failed: 0 }) })
   */
  async publish(request: BusPublishRequest): Promise<void> {
    const { topic, payload } = publishShape.read(request)
    await this.#session.run('publishMessage', { topic, payload: toBytes(payload, 'payload') })
  }

  /**
   * Receives the messages that are published after `opened` resolves, and the earlier messages that the
   * request replays. If the connection is lost, the subscription reconnects after the last received message.
   * Errors are thrown by the first `next()`, or after the messages that were received earlier.
   *
   * @throws {EngineError} REMOTE_FAILED when reconnecting takes longer than `reconnectMs`
   * @throws {EngineError} INVALID_ARGUMENT when the request is invalid
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted
   * @throws {EngineError} QUOTA when the session has 1,000 subscriptions
   * @throws {EngineError} SLOW_CONSUMER when the subscriber reads too slowly
   *
   * @example
   * for await (const { topic, payload } of session.bus.subscribe({ topicPatterns: ['tests:*'] })) {
   *   console.log(topic, payload)
   * }
   */
  subscribe(request: BusSubscribeRequest = {}): BusSubscription {
    const { transport, sessionId } = this.#session
    return new RemoteSubscription(transport, sessionId, request)
  }
}
