import { parseAtCall } from '../base/shape.js'
import type { SessionAccess } from '../session/access/session-access.js'
import {
  eventListShape,
  followEvents,
  listEvents,
  logVerifyShape,
  parseFollow,
  verifyEvents,
  type EventFollowOptions,
  type EventListRequest,
  type EventPage,
  type LogVerification,
  type LogVerifyRequest,
  type SessionEvent,
} from '../session/history/event-log.js'

/**
 * The changes of a session, oldest first: successful changes only, each with its principal. No event is ever
 * changed or taken out, and a restore adds to it.
 */
export class SessionEvents {
  readonly #access: SessionAccess

  constructor(access: SessionAccess) {
    this.#access = access
  }

  /**
   * A page of the events, between times if any are given. INVALID_ARGUMENT for a malformed time or token.
   *
   * @example
   * const { events } = await session.events.list({ startTime: '2026-01-31T00:00:00Z', pageSize: 100 })
   */
  async list(request: EventListRequest = {}): Promise<EventPage> {
    const copy = eventListShape.read(request)
    return this.#access.run('listEvents', (live) => listEvents(this.#access.core, live, this.#access, copy))
  }

  /** Every event that is stored, page by page. */
  async *[Symbol.asyncIterator](): AsyncGenerator<SessionEvent, void, undefined> {
    for (let pageToken: string | undefined; pageToken !== '';) {
      const page: EventPage = await this.list(pageToken === undefined ? {} : { pageToken })
      yield* page.events
      pageToken = page.nextPageToken
    }
  }

  /**
   * Every event after `afterEventId`, or all, then those that are yet to come. Ends when the session is deleted
   * or the engine closed; throws the signal's reason, or STORE_FAILED when a write failed.
   *
   * @example
   * for await (const { eventType, details } of session.events.follow({ signal })) show(eventType, details)
   */
  follow(options: EventFollowOptions = {}): AsyncGenerator<SessionEvent, void, undefined> {
    return this.#follow(parseAtCall(() => parseFollow(options)))
  }

  async *#follow(parsed: () => EventFollowOptions): AsyncGenerator<SessionEvent, void, undefined> {
    const copy = parsed()
    // Does not await where the session is loaded, so that a deletion right after the call is reported.
    const opened = this.#access.live('listEvents')
    const live = opened instanceof Promise ? await opened : opened
    yield* followEvents(this.#access.core, live, this.#access, copy)
  }

  /**
   * Reads the log from its beginning and checks that each event is linked to the one before it, and has the effects
   * it was recorded with. DATA_LOSS, naming the first that is not. An event that was changed together with all
   * later ones is found by comparing with an earlier result: for the same `lastEventId`, `headHash` must be the same.
   *
   * @example
   * const kept = await session.events.verify()
   * const { headHash } = await session.events.verify({ lastEventId: kept.lastEventId }) // kept.headHash
   */
  async verify(request: LogVerifyRequest = {}): Promise<LogVerification> {
    const copy = logVerifyShape.read(request)
    return this.#access.run('listEvents', (live) => verifyEvents(this.#access.core, live, copy))
  }
}
