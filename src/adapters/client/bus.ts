import type { BusPublishRequest, BusSubscribeRequest, BusSubscription } from '../../engine/index.js'
import { toBytes } from './bytes.js'
import { Shape } from '../../engine/client-contract.js'
import type { SessionCalls } from './session-calls.js'
import { RemoteSubscription } from './subscription.js'

const publishShape = new Shape<BusPublishRequest>({ topic: true, payload: true })

/** Messages between the clients of a session. Like `session.bus` of a local engine, with the differences below. */
export class RemoteBus {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  /** Resolves when the message is stored. Unlike a local engine, it returns no id. */
  async publish(request: BusPublishRequest): Promise<void> {
    const { topic, payload } = publishShape.read(request)
    await this.#session.run('publishMessage', { topic, payload: toBytes(payload, 'payload') })
  }

  /**
   * Receives the messages that are published after `opened` resolves, and the earlier messages that the request
   * replays. A lost connection is opened again after the last received message. If that takes longer than
   * `reconnectMs`, the subscription fails with REMOTE_FAILED.
   */
  subscribe(request: BusSubscribeRequest = {}): BusSubscription {
    const { transport, sessionId } = this.#session
    return new RemoteSubscription(transport, sessionId, request)
  }
}
