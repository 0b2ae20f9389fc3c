import { formatTime } from '../../base/environment.js'
import { EngineError, logChanged } from '../../base/errors.js'
import { checkSignal } from '../../base/abort.js'
import { TimeSlice } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { Shape } from '../../base/shape.js'
import { parseTime } from '../../base/time.js'
import { encodeSeq } from '../../storage/keys.js'
import { chainStart, expectedLink } from './chain.js'
import { sessionNotFound, type Core } from '../core.js'
import { eventIdOf, parseEventId, parseSeq } from './event-ids.js'
import { shownTime } from './event-times.js'
import { detailsFor, type EventReader } from './event-details.js'
import { firstSince } from './stored-events.js'
import type { EventBody, EventType } from '../../records/event.js'
import { follow } from './feed.js'
import type { LiveSession } from '../table/live.js'

/** A recorded change of a session. */
export interface SessionEvent {
  /** The id. As text, ids sort in the order of the events. */
  readonly eventId: string
  /** The time of the change: RFC 3339, UTC, milliseconds. Later events never have an earlier time. */
  readonly timestamp: string
  /** The operation, as `v1.<service>.<operation>`, such as `v1.FileSystemService.WriteFile`. */
  readonly eventType: EventType
  /** The principal that made the change. */
  readonly principal: string
  /**
   * Facts that depend on the type, such as `{ path: '/a' }`; empty for a handle that may not see the subject
   * of the event.
   */
  readonly details: Readonly<Record<string, unknown>>
}

/** A page of events, between two times. */
export interface EventListRequest extends PageRequest {
  /** RFC 3339: only events at or after this time. Absent: from the first event. */
  readonly startTime?: string
  /** RFC 3339: only events before this time. Absent: to the newest event. */
  readonly endTime?: string
}

export const eventListShape = new Shape<EventListRequest>({ startTime: true, endTime: true, ...pageNames })

/** A page of events. */
export interface EventPage {
  /** Oldest first. */
  readonly events: SessionEvent[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** The request of `session.events.verify`. */
export interface LogVerifyRequest {
  /** The `eventId` of the last event to check; absent: the newest one. */
  readonly lastEventId?: string
}

export const logVerifyShape = new Shape<LogVerifyRequest>({ lastEventId: true })

/** Options of `session.events.follow`. */
export interface EventFollowOptions {
  /** The `eventId` after which to start; absent: from the first event. */
  readonly afterEventId?: string
  /** Ends the iteration with the signal's reason. */
  readonly signal?: AbortSignal
}

const followShape = new Shape<EventFollowOptions>({ afterEventId: true, signal: true })

/**
 * Returns a checked copy of the options.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the options have the wrong form.
 */
export function parseFollow(options: EventFollowOptions): EventFollowOptions {
  const copy = followShape.read(options, 'options')
  checkSignal(copy.signal)
  return copy
}

/** The result of verifying a log, up to one event. Keep it to check later whether the log was changed. */
export interface LogVerification {
  /** The number of events checked. */
  readonly eventCount: number
  /** The `eventId` of the last event checked. */
  readonly lastEventId: string
  /** Hash over all events up to the last one. It stays the same as long as none of them changes. */
  readonly headHash: string
}

/**
 * A page of the stored events. The request is a copy made by {@link eventListShape}. Times are found by
 * bisection, because the shown times never decrease.
 */
export async function listEvents(
  core: Core,
  live: LiveSession,
  handle: EventReader,
  { startTime, endTime, pageSize: size, pageToken }: EventListRequest,
): Promise<EventPage> {
  const start = startTime === undefined ? undefined : parseTime('startTime', startTime)
  const end = endTime === undefined ? undefined : parseTime('endTime', endTime)
  const pageSize = parsePageSize(size)
  const listing = `events ${live.id}`
  const after = parsePageToken(listing, pageToken)
  const last = (await core.store.lastEvent(live.id))?.seq ?? 0
  const from = Math.max(
    start === undefined ? 1 : await firstSince(core, live, last, start),
    after === undefined ? 1 : parseSeq('pageToken', after) + 1,
  )
  const to = end === undefined ? last : (await firstSince(core, live, last, end)) - 1
  const events: SessionEvent[] = []
  let bytes = 0
  for await (const page of core.store.events(live.id, { from, to: Math.min(to, from + pageSize - 1) })) {
    for (const { seq, body } of page) {
      const event = describe(live, handle, seq, body as unknown as EventBody)
      events.push(event)
      bytes += JSON.stringify(event.details).length
      if (bytes >= limits.pageBytes) break
    }
    if (bytes >= limits.pageBytes) break
  }
  const reached = from + events.length - 1
  return { events, nextPageToken: reached < to ? encodePageToken(listing, encodeSeq(reached)) : '' }
}

/**
 * Yields all events after one event, including future ones.
 *
 * When the session is deleted, it ends after the changes that were called before the deletion. When the
 * engine is closed, it ends at the event that the reader has reached. It throws the signal's reason, or the
 * error of a failed write.
 */
export async function* followEvents(
  core: Core,
  live: LiveSession,
  handle: EventReader,
  { afterEventId, signal }: EventFollowOptions = {},
): AsyncGenerator<SessionEvent, void, undefined> {
  signal?.throwIfAborted()
  let seq = afterEventId === undefined ? 0 : parseEventId('afterEventId', live.id, afterEventId)
  let notified = false
  let ended: { readonly error: Error | undefined } | undefined
  let wake: (() => void) | undefined
  const notify = (): void => {
    notified = true
    wake?.()
  }
  const unfollow = follow(live, {
    event: notify,
    end: (error) => {
      ended = { error }
      notify()
    },
  })
  signal?.addEventListener('abort', notify, { once: true })
  // Even a slow reader gets the changes that were called before the deletion.
  const reader: { pin?: Disposable } = {}
  if (live.discarded === undefined)
    reader.pin = core.pins.pin({ states: { sessionId: live.id, seqs: [] }, owner: reader })
  try {
    for (;;) {
      notified = false
      const last = ended
      if (last?.error !== undefined) throw last.error
      // Changes that were accepted before the end are part of the log.
      if (last !== undefined) await live.acknowledged.catch(() => undefined)
      // A reader holds one page, no matter how slow it is.
      for await (const page of core.store.events(live.id, { from: seq + 1, to: live.seq })) {
        for (const event of page) {
          signal?.throwIfAborted()
          seq = event.seq
          yield describe(live, handle, seq, event.body as unknown as EventBody)
        }
      }
      if (last !== undefined) return
      if (!notified) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      signal?.throwIfAborted()
    }
  } catch (error) {
    // A slow reader may find the store closed before it reaches the end.
    if (live.discarded !== 'closed' || !(error instanceof EngineError) || error.reason !== 'STORE_CLOSED')
      throw error
  } finally {
    unfollow()
    reader.pin?.[Symbol.dispose]()
    signal?.removeEventListener('abort', notify)
  }
}

/**
 * Checks that each event is linked to the one before it.
 *
 * @throws {EngineError} DATA_LOSS when an event is missing or was changed after it was stored; `details.seq`
 * is the number of the first event that is missing or does not match its link.
 * @throws {EngineError} SESSION_NOT_FOUND when events are missing because the session was deleted.
 */
export async function verifyEvents(
  core: Core,
  live: LiveSession,
  { lastEventId }: LogVerifyRequest,
): Promise<LogVerification> {
  const last =
    lastEventId === undefined
      ? // A snapshot is stored after the events that it covers, so these events must exist.
        Math.max((await core.store.lastEvent(live.id))?.seq ?? 0, live.snapshotSeq)
      : parseEventId('lastEventId', live.id, lastEventId)
  const changed = (seq: number): EngineError =>
    // The events may have been deleted with the session.
    live.discarded === 'deleted' ? sessionNotFound(live.id) : logChanged(live.id, seq)
  const slice = new TimeSlice(core.environment)
  let previous = chainStart
  let count = 0
  for await (const page of core.store.events(live.id, { from: 1, to: last })) {
    for (const { seq, body } of page) {
      const event = body as unknown as EventBody
      if (slice.over) await slice.next()
      const link = await expectedLink(event, previous)
      if (seq !== ++count || !core.journal.isLinked(event[4], link)) throw changed(count)
      previous = link
    }
  }
  if (count < last) throw changed(count + 1)
  return { eventCount: count, lastEventId: eventIdOf(live.id, count), headHash: previous }
}

function describe(
  { id, record }: LiveSession,
  handle: EventReader,
  seq: number,
  [at, eventType, details, principal]: EventBody,
): SessionEvent {
  return {
    eventId: eventIdOf(id, seq),
    timestamp: formatTime(shownTime(record, seq, at)),
    eventType,
    principal,
    details: detailsFor(handle, eventType, details),
  }
}
