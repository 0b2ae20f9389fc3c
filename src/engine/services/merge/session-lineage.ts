import { formatTime } from '../../base/environment.js'
import { invalid } from '../../base/errors.js'
import { given } from '../../base/input.js'
import { noMetadata, type JsonObject } from '../../base/json-object.js'
import { limits } from '../../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { itemAt } from '../../base/present.js'
import { Shape } from '../../base/shape.js'
import { sessionKind, type SessionRecord } from '../../records/session.js'
import type { Core } from '../../session/core.js'
import { eventIdOf } from '../../session/history/event-ids.js'
import { findSession } from '../../session/history/replay.js'
import { lastActivities } from '../../session/table/activity.js'
import { openUsed } from '../../session/table/expiry.js'
import type { LiveSession } from '../../session/table/live.js'
import { isExpired } from '../../session/table/unused.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import { Ancestry, type GraphState } from './ancestry.js'

/** The request of `session.lineage`. The page is that of the children. */
export interface LineageRequest extends PageRequest {
  /** The id of another session, to find the common ancestors with it. */
  readonly with?: string
}

/** The state that a fork started from. */
export interface LineageParent {
  /** The id of the parent. */
  readonly sessionId: string
  /** The event of the parent after which the fork started. */
  readonly eventId: string
  /** false: the parent was deleted. */
  readonly exists: boolean
}

/** A fork of the session. */
export interface LineageChild {
  /** The id of the fork. */
  readonly sessionId: string
  /** The event of this session after which the fork started. */
  readonly eventId: string
  /** The time of its creation: RFC 3339, UTC, milliseconds. */
  readonly createdAt: string
  /** The metadata of the fork, frozen; `{}` when it has none. */
  readonly metadata: JsonObject
}

/** A state from which two sessions both come: that after an event, or the base that sessions start from. */
export interface CommonAncestor {
  /** The id of the session of the state, which may be deleted; '' for a base. */
  readonly sessionId: string
  /** The event before the state; '' for a base. */
  readonly eventId: string
  /** The `baseFingerprint` of the base; '' for the state of a session. */
  readonly baseFingerprint: string
}

/** The relatives of a session. */
export interface SessionLineage {
  /** Absent for a session that is no fork. */
  readonly parent?: LineageParent
  /** The existing forks of the session, in order of creation. A page may be shorter than requested, or empty. */
  readonly children: LineageChild[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
  /**
   * With `with`, the newest states from which the current states of both sessions come. Usually one; several after
   * merges in both directions; none if the sessions are not related. At most 16.
   */
  readonly commonAncestors: CommonAncestor[]
}

const lineageShape = new Shape<LineageRequest>({ with: true, ...pageNames })

/** Copies a request. The page is checked later. */
export function parseLineage(request: LineageRequest): LineageRequest {
  const copy = lineageShape.read(request)
  if (copy.with !== undefined && typeof copy.with !== 'string')
    throw invalid('with', `must be the id of a session; it is ${given(copy.with)}`)
  return copy
}

/** The parent, a page of the children, and the common ancestors with another session. */
export async function readLineage(
  core: Core,
  live: LiveSession,
  { with: other, ...page }: LineageRequest,
): Promise<SessionLineage> {
  const { base } = live.record
  const parent = base === undefined ? {} : { parent: await parentOf(core, base) }
  const children = await childrenOf(core, live.id, page)
  const commonAncestors =
    other === undefined ? [] : await commonAncestorsOf(core, live, await openUsed(core, other))
  return { ...parent, ...children, commonAncestors }
}

async function parentOf(core: Core, [sessionId, seq]: readonly [string, number]): Promise<LineageParent> {
  const record = await findSession(core, sessionId)
  const exists = record !== undefined && (await existing(core, [record])).length > 0
  return { sessionId, eventId: eventIdOf(sessionId, seq), exists }
}

/** A page of the forks. There is no index of them, so it reads the records of sessions, up to a bound. */
async function childrenOf(
  core: Core,
  sessionId: string,
  { pageSize: size, pageToken }: PageRequest,
): Promise<Pick<SessionLineage, 'children' | 'nextPageToken'>> {
  const pageSize = parsePageSize(size)
  const listing = `children ${sessionId}`
  const prefix = keys.sessions(core.tenantKey)
  let after = parsePageToken(listing, pageToken)
  const children: LineageChild[] = []
  for (let looked = 0; looked < limits.lineageScan && children.length < pageSize;) {
    const gte = after === undefined ? prefix : `${prefix}${after}\0`
    const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: limits.recordsPerScan })
    const forks: SessionRecord[] = []
    let isFull = false
    for (const [, json] of found) {
      const record = sessionKind.parse(json)
      after = record.id
      if (record.base?.[0] === sessionId) forks.push(record)
      isFull = children.length + forks.length === pageSize
      if (isFull) break
    }
    for (const record of await existing(core, forks)) children.push(childOf(record, sessionId))
    looked += found.length
    if (!isFull && found.length < limits.recordsPerScan) return { children, nextPageToken: '' }
  }
  return { children, nextPageToken: encodePageToken(listing, after ?? '') }
}

function childOf(
  { id, base, createdAt, metadata = noMetadata }: SessionRecord,
  parent: string,
): LineageChild {
  return {
    sessionId: id,
    eventId: eventIdOf(parent, base?.[1] ?? 0),
    createdAt: formatTime(createdAt),
    metadata,
  }
}

/** Those of the sessions that are neither deleted nor expired. */
async function existing(core: Core, records: readonly SessionRecord[]): Promise<readonly SessionRecord[]> {
  const kept = records.filter(({ id, deletedAt }) => deletedAt === undefined && !core.table.deleting.has(id))
  const times = await lastActivities(core, kept)
  return kept.filter((record, index) => !isExpired(core, { record, lastActivityAt: itemAt(times, index) }))
}

async function commonAncestorsOf(
  core: Core,
  live: LiveSession,
  other: LiveSession,
): Promise<CommonAncestor[]> {
  const ancestry = new Ancestry(core)
  const ours = await ancestry.ancestorsOf({ sessionId: live.id, seq: live.seq })
  const theirs = await ancestry.ancestorsOf({ sessionId: other.id, seq: other.seq })
  const states = await ancestry.commonAncestors(ours, theirs)
  return states.slice(0, limits.mergeBases).map(describeState)
}

function describeState(state: GraphState): CommonAncestor {
  if ('baseline' in state) return { sessionId: '', eventId: '', baseFingerprint: state.baseline }
  return {
    sessionId: state.sessionId,
    eventId: eventIdOf(state.sessionId, state.seq),
    baseFingerprint: '',
  }
}
