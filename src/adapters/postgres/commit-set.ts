import { EngineError, itemAt } from '../../engine/ports.js'
import type { HeadMove, NewStoredEvent, StoreCommit } from '../../engine/ports.js'
import { sizeOf } from './arrays.js'
import { defectError } from './errors.js'
import { isNodeKey } from './key-ranges.js'
import { postgresLimits } from './limits.js'

/** An event whose body is text. */
export interface EncodedEvent {
  readonly sessionId: string
  readonly seq: number
  readonly body: string
}

/** A commit whose values are text, and whose events are known to continue each other. */
export interface EncodedCommit {
  readonly events: readonly EncodedEvent[]
  readonly heads: readonly HeadMove[]
  /** The first and the last new number of each session. */
  readonly claims: ReadonlyMap<string, Claim>
  readonly put: readonly (readonly [key: string, value: string])[]
  readonly del: readonly string[]
  readonly blobs: NonNullable<StoreCommit['blobs']>
  readonly deleteBlobs: readonly string[]
  readonly replaceEvents: readonly EncodedEvent[]
  readonly deleteEvents: readonly string[]
  /** The number of the right to collect that the commit needs. */
  readonly collector: string | undefined
  /** The approximate size of all values. */
  readonly bytes: number
}

interface Claim {
  readonly first: number
  readonly last: number
}

/** A content that is an object of a bucket. */
export class StoredObject {
  /** A UUID that no other object has. */
  readonly id: string
  /** The size of the content, in bytes. */
  readonly size: number

  constructor(id: string, size: number) {
    this.id = id
    this.size = size
  }
}

/** A content that the store had a moment ago. A statement stores its set only if the store still has it. */
export class KnownContent {
  /** For the case that it was deleted. */
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }
}

/** How a statement stores a content. */
export type StoredContent = Uint8Array | StoredObject | KnownContent

/** Whether a statement contains the bytes of a content. Those of deleted contents are null. */
export function isSent(content: StoredContent | null): content is Uint8Array {
  return content !== null && !(content instanceof StoredObject) && !(content instanceof KnownContent)
}

/** The approximate size of an entry without its value, in bytes. */
const entryBytes = 64

/**
 * Encodes a commit. Returns undefined if two of its events have the same number, because such a commit stores
 * nothing. `collector` is the number of the right to collect, for a commit of a collection.
 *
 * @throws {EngineError} TOO_LARGE when a value is over its limit.
 */
export function encodeCommit(commit: StoreCommit, collector?: string): EncodedCommit | undefined {
  const { put = [], del = [], blobs = [], deleteBlobs = [], deleteEvents = [], heads = [] } = commit
  const events = (commit.events ?? []).map(encodeEvent)
  const replaceEvents = (commit.replaceEvents ?? []).map(encodeEvent)
  const claims = claimsOf(events)
  if (claims === undefined) return undefined
  let bytes = (del.length + deleteBlobs.length + deleteEvents.length) * entryBytes
  const values = put.map(([key, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    bytes += count(text) + entryBytes
    return [key, text] as const
  })
  for (const { body } of events) bytes += count(body) + entryBytes
  for (const { body } of replaceEvents) bytes += count(body) + entryBytes
  for (const blob of blobs) bytes += count(blob.bytes) + entryBytes
  const changes = { events, heads, put: values, del, blobs, deleteBlobs, replaceEvents, deleteEvents }
  return { ...changes, claims, collector, bytes }
}

function encodeEvent({ sessionId, seq, body }: NewStoredEvent): EncodedEvent {
  return { sessionId, seq, body: typeof body === 'string' ? body : JSON.stringify(body) }
}

/** Undefined if a number occurs twice. */
function claimsOf(events: readonly EncodedEvent[]): Map<string, Claim> | undefined {
  const claims = new Map<string, Claim>()
  for (const { sessionId, seq } of events) {
    const { first, last } = claims.get(sessionId) ?? { first: seq, last: seq - 1 }
    if (seq <= last) return undefined
    if (seq > last + 1) throw defectError(gapText(sessionId, seq))
    claims.set(sessionId, { first, last: seq })
  }
  return claims
}

function count(value: string | Uint8Array): number {
  if (value.length * 3 <= postgresLimits.valueBytes) return value.length
  const bytes = sizeOf(value)
  if (bytes <= postgresLimits.valueBytes) return bytes
  const limit = String(postgresLimits.valueBytes)
  const message = `a value has ${bytes} bytes; the store on PostgreSQL takes at most ${limit}. Split it`
  throw new EngineError('TOO_LARGE', message, { limit, outcome: 'not-applied' })
}

export function gapText(sessionId: string, seq: number): string {
  return `session ${sessionId}: the new event has the number ${seq}, and the one before it does not exist`
}

/**
 * The effect of several commits, one after the other. For example, a record that the first commit puts and
 * the second one deletes is only deleted.
 */
export class CommitSet {
  /** The heads that sessions must have, and their new ones. */
  readonly heads = new Map<string, Pick<HeadMove, 'from' | 'to'>>()
  /** The numbers that must be the next ones of their sessions. */
  readonly claims = new Map<string, Claim>()
  /** New events, by session and number. */
  readonly events = new Map<string, Map<number, string>>()
  /** Stored events with new bodies, by session and number. */
  readonly replaced = new Map<string, Map<number, string>>()
  readonly deletedSessions = new Set<string>()
  /** Values of records; null for deleted ones. */
  readonly records = new Map<string, string | null>()
  /** The same for the records of nodes. */
  readonly nodes = new Map<string, string | null>()
  /** Contents by their hashes; null for deleted ones. */
  readonly blobs = new Map<string, StoredContent | null>()
  /** The number of the right to collect that all commits of the set need. */
  collector: string | undefined
  #isEmpty = true
  bytes = 0

  /**
   * Whether this set can also have the effect of the commit. It cannot if that commit depends on the outcome
   * of an earlier one: if its events do not continue those of the set, only the store knows whether they are
   * the next ones. The same is true of its heads, and of the right to collect.
   */
  accepts({ events, heads, claims, replaceEvents, deleteEvents, collector }: EncodedCommit): boolean {
    if (!this.#isEmpty && collector !== this.collector) return false
    for (const { id, from } of heads) {
      const earlier = this.heads.get(id)
      if (earlier !== undefined && earlier.to !== from) return false
      if (this.deletedSessions.has(id)) return false
    }
    // A replaced event may be missing, which the store finds out only while the set has it.
    if (deleteEvents.some((sessionId) => this.heads.has(sessionId) || this.replaced.has(sessionId)))
      return false
    if (events.length > 0)
      for (const [sessionId, { first }] of claims) {
        const earlier = this.claims.get(sessionId)
        if (this.deletedSessions.has(sessionId)) return false
        if (earlier !== undefined && first !== earlier.last + 1) return false
      }
    return !replaceEvents.some(({ sessionId }) => this.deletedSessions.has(sessionId))
  }

  /** Adds the effect of a commit that comes after the others. */
  add(commit: EncodedCommit): void {
    this.bytes += commit.bytes
    this.collector = commit.collector
    this.#isEmpty = false
    for (const { id, from, to } of commit.heads)
      this.heads.set(id, { from: this.heads.get(id)?.from ?? from, to })
    for (const [sessionId, { first, last }] of commit.claims)
      this.claims.set(sessionId, { first: this.claims.get(sessionId)?.first ?? first, last })
    for (const { sessionId, seq, body } of commit.events) put(this.events, sessionId, seq, body)
    for (const { sessionId, seq, body } of commit.replaceEvents) {
      const isNew = this.events.get(sessionId)?.has(seq) === true
      put(isNew ? this.events : this.replaced, sessionId, seq, body)
    }
    for (const [key, value] of commit.put) this.#recordsWith(key).set(key, value)
    for (const key of commit.del) this.#recordsWith(key).set(key, null)
    for (const hash of commit.deleteBlobs) this.blobs.set(hash, null)
    for (const { hash, bytes } of commit.blobs) this.blobs.set(hash, bytes)
    for (const sessionId of commit.deleteEvents) {
      this.events.delete(sessionId)
      this.replaced.delete(sessionId)
      this.deletedSessions.add(sessionId)
    }
  }

  /** Sets how a statement stores a content that is in this set. */
  replaceBlob(hash: string, content: StoredContent): void {
    const before = this.blobs.get(hash)
    for (const [each, factor] of [
      [before, -1],
      [content, 1],
    ] as const)
      if (each !== undefined && isSent(each)) this.bytes += factor * each.byteLength
    this.blobs.set(hash, content)
  }

  /**
   * The same effect in several sets, each of about the given size. They must be stored in this order and in
   * one transaction.
   */
  *split(bytes: number): Generator<CommitSet, void> {
    let part = new CommitSet()
    part.collector = this.collector
    for (const [sessionId, move] of this.heads) part.heads.set(sessionId, move)
    for (const [sessionId, claim] of this.claims) part.claims.set(sessionId, claim)
    for (const sessionId of this.deletedSessions) part.deletedSessions.add(sessionId)
    for (const add of this.#entries()) {
      part.bytes += add(part)
      if (part.bytes < bytes) continue
      yield part
      part = new CommitSet()
      part.collector = this.collector
    }
    yield part
  }

  /** One function for each entry, which adds it to another set and returns its approximate size. */
  *#entries(): Generator<(to: CommitSet) => number, void> {
    for (const name of ['events', 'replaced'] as const) {
      for (const [sessionId, bodies] of this[name])
        for (const [seq, body] of bodies)
          yield (to) => {
            put(to[name], sessionId, seq, body)
            return body.length + entryBytes
          }
    }
    for (const name of ['records', 'nodes'] as const) {
      for (const [key, value] of this[name])
        yield (to) => {
          to[name].set(key, value)
          return (value?.length ?? 0) + entryBytes
        }
    }
    for (const [hash, bytes] of this.blobs)
      yield (to) => {
        to.blobs.set(hash, bytes)
        return (isSent(bytes) ? bytes.byteLength : 0) + entryBytes
      }
  }

  /** Brings records, nodes and contents into the order of their keys, so that two engines write them in one order. */
  sort(): void {
    for (const map of [this.records, this.nodes, this.blobs] as Map<string, unknown>[]) {
      if (map.size < 2) continue
      const sorted = [...map].toSorted(([a], [b]) => (a < b ? -1 : 1))
      map.clear()
      for (const [key, value] of sorted) map.set(key, value)
    }
  }

  #recordsWith(key: string): Map<string, string | null> {
    return isNodeKey(key) ? this.nodes : this.records
  }
}

function put(events: Map<string, Map<number, string>>, sessionId: string, seq: number, body: string): void {
  const bodies = events.get(sessionId)
  if (bodies === undefined) events.set(sessionId, new Map([[seq, body]]))
  else bodies.set(seq, body)
}

/** The set of one commit. */
export function setOf(commit: EncodedCommit): CommitSet {
  const set = new CommitSet()
  set.add(commit)
  return set
}

/** The smallest number that a commit claims for one of its sessions, for an error. */
export function firstClaim({ claims }: EncodedCommit): readonly [sessionId: string, seq: number] {
  const [sessionId, { first }] = itemAt([...claims], 0)
  return [sessionId, first]
}
