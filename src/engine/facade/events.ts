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
 * The changes of a session, oldest first: only successful changes, each with its principal. No event is ever changed
 * or removed, and a restore adds one.
 */
export class SessionEvents {
  readonly #access: SessionAccess

  /** @internal */
  constructor(access: SessionAccess) {
    this.#access = access
  }

  /**
   * A page of the events, between two times if the request has any.
   * A page ends early after about 8 MiB, so only an empty `nextPageToken` marks the end.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a time is malformed, or the page token is of another listing.
   *
   * @example
   * const { events } = await session.events.list({ startTime: '2026-01-31T00:00:00Z', pageSize: 100 })
   */
  async list(request: EventListRequest = {}): Promise<EventPage> {
    const copy = eventListShape.read(request)
    return this.#access.run('listEvents', (live) => listEvents(this.#access.core, live, this.#access, copy))
  }

  /**
   * Every stored event, read page by page.
   *
   * @example
   * for await (const { timestamp, eventType } of session.events) console.log(timestamp, eventType)
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<SessionEvent, void, undefined> {
    for (let pageToken: string | undefined; pageToken !== '';) {
      const page: EventPage = await this.list(pageToken === undefined ? {} : { pageToken })
      yield* page.events
      pageToken = page.nextPageToken
    }
  }

  /**
   * Every event after `afterEventId`, or all, and then each new one. Ends when the session is deleted or the engine
   * closed, and fails with the signal's reason.
   *
   * @throws {EngineError} INVALID_ARGUMENT when `afterEventId` is not of this session.
   * @throws {EngineError} STORE_FAILED when a write failed.
   *
   * @example
   * for await (const { eventType, details } of session.events.follow()) console.log(eventType, details)
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
   * it was recorded with. A change of an event and all later ones shows only in a comparison with an earlier result:
   * for the same `lastEventId`, `headHash` must be the same.
   *
   * @throws {EngineError} DATA_LOSS when an event is missing or changed; `details.seq` is the number of the first
   * one.
   * @throws {EngineError} INVALID_ARGUMENT when `lastEventId` is not of this session.
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
