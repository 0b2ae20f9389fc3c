import { formatTime } from '../../base/environment.js'
import { limits } from '../../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { encodeSeq, seqWidth } from '../../storage/keys.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { eventIdOf, parseSeq } from './event-ids.js'
import { shownTime } from './event-times.js'
import { PathWalk, type PathVersion } from './path-walk.js'

/** A page of the changes of a path. */
export interface PathHistoryRequest extends PageRequest {
  /** Absolute path in the session, such as `/src/a.ts`. Symlinks are not followed. */
  readonly path: string
}

/** A change of a path by an event. */
export interface PathChange {
  /** The id of the event. */
  readonly eventId: string
  /** The time of the event: RFC 3339, UTC, milliseconds. */
  readonly timestamp: string
  /** The operation, as `v1.<service>.<operation>`. */
  readonly eventType: string
  /** The principal that made the change. */
  readonly principal: string
  /** `renamed`: the file, or a directory above it, was moved, and may have changed too. */
  readonly change: 'added' | 'removed' | 'modified' | 'renamed'
  /** The path after the event. */
  readonly path: string
  /** The path before the event; the same unless it was renamed. */
  readonly previousPath: string
}

/** A page of the changes of a path. */
export interface PathHistoryPage {
  /** Newest first. A page may have fewer changes than requested, or none, before the last one. */
  readonly changes: PathChange[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
  /** false, on the last page: earlier changes are no longer kept. */
  readonly isComplete: boolean
}

export const pathHistoryShape = new Shape<PathHistoryRequest>({ path: true, ...pageNames })

/** A page of the changes of a path, newest first. The request is a copy made by {@link pathHistoryShape}. */
export function listPathHistory(
  core: Core,
  live: LiveSession,
  request: PathHistoryRequest,
): Promise<PathHistoryPage> {
  return core.pins.whileReading(readPage(core, live, request))
}

async function readPage(
  core: Core,
  live: LiveSession,
  request: PathHistoryRequest,
): Promise<PathHistoryPage> {
  const { path } = request
  parsePath(path)
  const pageSize = parsePageSize(request.pageSize)
  const listing = `history ${live.id} ${path}`
  const token = parsePageToken(listing, request.pageToken)
  // Queued events are read from the store.
  const newest = live.seq
  await live.acknowledged
  const start = token === undefined ? { seq: newest, path } : parsePosition(token)
  const walk = new PathWalk(core, live, { followsRestores: false })
  const changes: PathChange[] = []
  let looked = 0
  for await (const { version, next } of walk.from(Math.min(start.seq, newest), start.path)) {
    if (version !== undefined) changes.push(describeVersion(live, version))
    const isFull = changes.length === pageSize || ++looked === limits.pathHistoryEvents
    if (!isFull || next.seq === 0) continue
    const position = encodeSeq(next.seq) + next.path
    return { changes, nextPageToken: encodePageToken(listing, position), isComplete: true }
  }
  return { changes, nextPageToken: '', isComplete: !walk.endedEarly }
}

function parsePosition(token: string): { readonly seq: number; readonly path: string } {
  const path = token.slice(seqWidth)
  parsePath(path)
  return { seq: parseSeq('pageToken', token.slice(0, seqWidth)), path }
}

function describeVersion(live: LiveSession, version: PathVersion): PathChange {
  const { event, path, previousPath, before, after } = version
  const [at, eventType, , principal] = event.body
  return {
    eventId: eventIdOf(live.id, event.seq),
    timestamp: formatTime(shownTime(live.record, event.seq, at)),
    eventType,
    principal,
    change:
      previousPath !== path
        ? 'renamed'
        : before === undefined
          ? 'added'
          : after === undefined
            ? 'removed'
            : 'modified',
    path,
    previousPath,
  }
}
