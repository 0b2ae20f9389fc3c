import { touch } from '../../session/table/activity.js'
import { whenLoaded } from '../../base/fault.js'
import { inBackground, type Core } from '../../session/core.js'
import { follow } from '../../session/history/feed.js'
import type { RecordChanges } from '../../session/journal/journal.js'
import type { LiveSession } from '../../session/table/live.js'
import { roughly, SessionIndex } from '../../session/table/session-index.js'
import { commitRecords, mutate } from '../../session/mutation-queue.js'
import { keys } from '../../storage/keys.js'
import { BusChannel } from './bus-channel.js'
import { fromRecord, toRecord } from './bus-message.js'
import type { BusQuery, Publication } from './bus-requests.js'
import type { Subscription } from './bus-subscription.js'

/**
 * Messages within a session. They are not part of its history: they have no events, and restores do not
 * affect them. A fork starts without messages. Only the newest messages are kept.
 */
export class MessageBus {
  readonly #channels = new SessionIndex<BusChannel>(
    keys.busMessages,
    () => new BusChannel(),
    (channel, json, _core, key) => channel.restore(fromRecord(json, key)),
    { weigh: ({ keptCount, keptBytes }) => keptCount * roughly.record + keptBytes },
  )

  /** The channels of sessions that other engines change too. Each change replaces them. */
  readonly #newest = new WeakMap<LiveSession, BusChannel>()

  /** Resolves when the message is stored, and delivered to the subscribers that wait for it. */
  publish(core: Core, live: LiveSession, publication: Publication): Promise<{ messageId: string }> {
    return mutate(core, live, () => {
      const channel = this.#channel(core, live)
      const by = { senderId: core.principal, at: core.environment.wallClockMs() }
      const { message, dropped } = channel.add(publication, by)
      // A message has no event, so its use of the session must be noted here.
      touch(core, live)
      const records = core.journal.kept((): RecordChanges => ({
        put: [[keys.busMessage(live.id, message.seq), toRecord(message)]],
        del: dropped.map(({ seq }) => keys.busMessage(live.id, seq)),
      }))
      // Even a store that keeps nothing determines when other work gets a turn.
      const stored = commitRecords(core, live, records ?? {})
      return channel.deliver(message, stored, core.environment).then(() => ({ messageId: message.messageId }))
    })
  }

  /**
   * Runs in order with the calls of {@link publish}: the subscription receives all later publications.
   *
   * @throws {EngineError} QUOTA when there are too many subscribers or patterns
   */
  subscribe(core: Core, live: LiveSession, subscription: Subscription, query: BusQuery): Promise<void> {
    return mutate(core, live, () => {
      const channel = this.#channel(core, live)
      if (subscription.ended) return Promise.resolve()
      live.shared?.onRestart(this, () => inBackground(core, this.#refresh(core, live)))
      const end = (error?: Error): void => channel.end(error === undefined ? {} : { error })
      channel.subscribe(subscription, query, {
        environment: core.environment,
        follow: () => follow(live, { event: () => undefined, end }),
      })
      return Promise.resolve()
    })
  }

  /** The channel of a session. Throws a Fault if its messages must be read first. */
  #channel(core: Core, live: LiveSession): BusChannel {
    const channel = this.#channels.get(core, live)
    if (live.shared === undefined) return channel
    const earlier = this.#newest.get(live)
    if (earlier !== channel) {
      this.#newest.set(live, channel)
      if (earlier !== undefined) channel.takeOver(earlier, core.environment)
    }
    return channel
  }

  /** Delivers the messages of other engines. */
  async #refresh(core: Core, live: LiveSession): Promise<void> {
    if (live.discarded === undefined) await whenLoaded(() => this.#channel(core, live))
  }
}
