import type { BusPublishRequest, BusSubscribeRequest, BusSubscription } from '../../engine/index.js'
import { toBytes } from './bytes.js'
import { Shape } from '../../engine/client-contract.js'
import type { SessionCalls } from './session-calls.js'
import { RemoteSubscription } from './subscription.js'

const publishShape = new Shape<BusPublishRequest>({ topic: true, payload: true })

/** Messages between those who work on a session. As `session.bus` in process, but for what is said here. */
export class RemoteBus {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  /** Resolves when the message is stored. Its id is not told. */
  async publish(request: BusPublishRequest): Promise<void> {
    const { topic, payload } = publishShape.read(request)
    await this.#session.run('publishMessage', { topic, payload: toBytes(payload, 'payload') })
  }

  /**
   * What is published after `opened` has resolved, and before it as far as a replay is asked for. A connection that
   * is lost is opened again, behind what was received; REMOTE_FAILED when that takes longer than `reconnectMs`.
   */
  subscribe(request: BusSubscribeRequest = {}): BusSubscription {
    const { transport, sessionId } = this.#session
    return new RemoteSubscription(transport, sessionId, request)
  }
}
