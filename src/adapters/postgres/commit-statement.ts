import { createHash } from 'node:crypto'
import { byteaArray, uuidArray } from './arrays.js'
import { isSent, KnownContent, StoredObject, type CommitSet, type StoredContent } from './commit-set.js'
import type { Row, Statement } from './connections.js'

/** What a statement for a set of commits did. */
export type CommitStatus =
  /** Everything is stored. */
  | 'stored'
  /** Nothing is stored: these sessions have other heads. */
  | { readonly overtaken: ReadonlySet<string> }
  /** Nothing is stored: an event has a number that is taken. */
  | 'passed'
  /** Nothing is stored: the number of an event would leave a gap. */
  | 'gap'
  /** Nothing is stored: an event to replace does not exist. */
  | 'missing'
  /** Nothing is stored: a known content was deleted. */
  | 'dropped'
  /** Nothing is stored: this engine lost the right to collect. */
  | 'ended'
  /** Nothing is stored: another engine has the lease, or the one of this engine has expired. */
  | 'taken'

/** A part of a statement, with parameters of its own. If `isStamped` is true, rows get the epoch of the lease. */
interface Part {
  /** A query with conditions, which runs before any change. `p` gives the placeholder of a parameter. */
  readonly check?: (schema: string, p: Placeholder, isStamped: boolean) => string
  /** A query that changes rows if the query `ok` has a row. */
  readonly change?: (schema: string, p: Placeholder, isStamped: boolean) => string
  /** The parameters; undefined if the set needs no such part. */
  readonly values: (set: CommitSet) => readonly unknown[] | undefined
}

type Placeholder = (index: number) => string

/**
 * The part with the heads of sessions. It locks them in the order of their keys, so two statements never wait for each
 * other. A statement that waited for another one compares the new head.
 */
const headed: Part = {
  check: (schema, p) =>
    `held AS MATERIALIZED (
      SELECT h.session_id FROM unnest(${p(0)}::bytea[], ${p(1)}::text[]) AS c(session_id, head)
      JOIN ${schema}.heads h ON h.session_id = c.session_id AND h.head = c.head
      ORDER BY h.session_id FOR UPDATE OF h),
    overtaken AS (
      SELECT string_agg(encode(c.session_id, 'hex'), ',') AS ids
      FROM unnest(${p(0)}::bytea[], ${p(1)}::text[]) AS c(session_id, head)
      WHERE NOT EXISTS (SELECT FROM held h WHERE h.session_id = c.session_id)
        AND (c.head <> '' OR EXISTS (SELECT FROM ${schema}.heads h WHERE h.session_id = c.session_id)))`,
  change: (schema, p) =>
    `moved AS (
      UPDATE ${schema}.heads h SET head = c.next
      FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::text[], ${p(2)}::text[]) AS c(session_id, head, next)
      WHERE h.session_id = c.session_id AND c.head <> ''),
    begun AS (
      INSERT INTO ${schema}.heads (session_id, head) SELECT c.session_id, c.next
      FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::text[], ${p(2)}::text[]) AS c(session_id, head, next)
      WHERE c.head = '')`,
  values: ({ heads }) => {
    if (heads.size === 0) return undefined
    const moves = [...heads].toSorted(([a], [b]) => (a < b ? -1 : 1))
    return [
      byteaArray(moves.map(([sessionId]) => sessionId)),
      moves.map(([, { from }]) => from),
      moves.map(([, { to }]) => to),
    ]
  },
}

/** The part with the numbers that new events must have. */
const claimed: Part = {
  check: (schema, p) =>
    `claimed AS (
      SELECT bool_or(c.first <= n.last) AS passed, bool_or(c.first > n.last + 1) AS gap
      FROM unnest(${p(0)}::bytea[], ${p(1)}::bigint[]) AS c(session_id, first), LATERAL (
        SELECT coalesce(max(e.seq), 0) AS last FROM ${schema}.events e WHERE e.session_id = c.session_id) n)`,
  values: ({ claims }) =>
    claims.size === 0
      ? undefined
      : [byteaArray([...claims.keys()]), [...claims.values()].map(({ first }) => first)],
}

/** The part with new bodies of stored events. */
const replaced: Part = {
  check: (schema, p) =>
    `missing AS (
      SELECT count(*) > 0 AS missing FROM unnest(${p(0)}::bytea[], ${p(1)}::bigint[]) AS r(session_id, seq)
      WHERE NOT EXISTS (SELECT FROM ${schema}.events e WHERE e.session_id = r.session_id AND e.seq = r.seq))`,
  change: (schema, p) =>
    `replaced AS (
      UPDATE ${schema}.events e SET body = r.body
      FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::bigint[], ${p(2)}::bytea[]) AS r(session_id, seq, body)
      WHERE e.session_id = r.session_id AND e.seq = r.seq)`,
  values: ({ replaced }) => eventValues(replaced),
}

/** The part of a collection: it changes something only while its engine has the right to collect. */
const collecting: Part = {
  check: (schema, p) =>
    `role AS (SELECT FROM ${schema}.collections WHERE owner = $2 AND token = ${p(0)}::bigint FOR SHARE)`,
  values: ({ collector }) => (collector === undefined ? undefined : [collector]),
}

/** The part with contents that the store must have. A deletion of one waits for this statement. */
const known: Part = {
  check: (schema, p) =>
    `known AS MATERIALIZED (
      SELECT b.hash FROM ${schema}.blobs b WHERE b.hash = ANY(${p(0)}::bytea[]) ORDER BY b.hash FOR KEY SHARE),
    dropped AS (SELECT cardinality(${p(0)}::bytea[]) > count(*) AS dropped FROM known)`,
  change: (schema, p, isStamped) =>
    isStamped
      ? `touched AS (
          UPDATE ${schema}.blobs b SET epoch = ok.epoch FROM ok
          WHERE b.hash = ANY(${p(0)}::bytea[]) AND b.epoch < ok.epoch)`
      : '',
  values: ({ blobs }) => {
    const hashes = [...blobs].filter(([, content]) => content instanceof KnownContent)
    return hashes.length === 0 ? undefined : [byteaArray(hashes.map(([hash]) => hashBytes(hash)))]
  },
}

/**
 * The end of each query that adds contents, whether they are bytes or objects. The part `known` replaces such a query for
 * contents that the store has. `known` changes the same columns as this end.
 */
function ifBlobExists(isStamped: boolean): string {
  return isStamped
    ? 'ON CONFLICT (hash) DO UPDATE SET epoch = excluded.epoch WHERE b.epoch < excluded.epoch'
    : 'ON CONFLICT (hash) DO NOTHING'
}

/**
 * All queries of a statement see the state before it, and no two of its changes touch the same row. So the
 * order of the changes makes no difference.
 */
const parts: readonly Part[] = [
  headed,
  claimed,
  replaced,
  known,
  collecting,
  {
    change: (schema, p) =>
      `added AS (
        INSERT INTO ${schema}.events (session_id, seq, body)
        SELECT e.* FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::bigint[], ${p(2)}::bytea[]) AS e)`,
    values: ({ events }) => eventValues(events),
  },
  {
    change: (schema, p) =>
      `forgotten AS (
        DELETE FROM ${schema}.events WHERE session_id = ANY(${p(0)}::bytea[]) AND EXISTS (SELECT FROM ok))`,
    values: ({ deletedSessions }) =>
      deletedSessions.size === 0 ? undefined : [byteaArray([...deletedSessions])],
  },
  {
    change: (schema, p) =>
      `forgotten_heads AS (
        DELETE FROM ${schema}.heads WHERE session_id = ANY(${p(0)}::bytea[]) AND EXISTS (SELECT FROM ok))`,
    values: ({ deletedSessions }) =>
      deletedSessions.size === 0 ? undefined : [byteaArray([...deletedSessions])],
  },
  ...(['records', 'nodes'] as const).flatMap((table): Part[] => [
    {
      change: (schema, p, isStamped) => {
        const hasEpoch = isStamped && table === 'nodes'
        return `put_${table} AS (
          INSERT INTO ${schema}.${table} AS t (key, value${hasEpoch ? ', epoch' : ''})
          SELECT r.*${hasEpoch ? ', ok.epoch' : ''} FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::bytea[]) AS r
          ON CONFLICT (key) DO UPDATE SET value = excluded.value${
            hasEpoch ? ', epoch = greatest(t.epoch, excluded.epoch)' : ''
          })`
      },
      values: (set) => pairs(set[table]),
    },
    {
      change: (schema, p) =>
        `deleted_${table} AS (
          DELETE FROM ${schema}.${table} WHERE key = ANY(${p(0)}::bytea[]) AND EXISTS (SELECT FROM ok))`,
      values: (set) => nulls(set[table], (key) => key),
    },
  ]),
  {
    change: (schema, p, isStamped) =>
      `added_blobs AS (
        INSERT INTO ${schema}.blobs AS b (hash, bytes${isStamped ? ', epoch' : ''})
        SELECT c.*${isStamped ? ', ok.epoch' : ''} FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::bytea[]) AS c
        ${ifBlobExists(isStamped)})`,
    values: ({ blobs }) => pairs(blobs, hashBytes),
  },
  {
    // An object whose id is taken already may have been deleted. The whole statement then fails.
    change: (schema, p, isStamped) =>
      `used_objects AS (
        INSERT INTO ${schema}.objects (id, size)
        SELECT o.id, o.size FROM ok, unnest(${p(1)}::uuid[], ${p(2)}::integer[]) AS o(id, size)),
      added_objects AS (
        INSERT INTO ${schema}.blobs AS b (hash, object, size${isStamped ? ', epoch' : ''})
        SELECT o.*${isStamped ? ', ok.epoch' : ''}
        FROM ok, unnest(${p(0)}::bytea[], ${p(1)}::uuid[], ${p(2)}::integer[]) AS o
        ${ifBlobExists(isStamped)})`,
    values: ({ blobs }) => objectValues(blobs),
  },
  {
    change: (schema, p) =>
      `deleted_blobs AS (
        DELETE FROM ${schema}.blobs WHERE hash = ANY(${p(0)}::bytea[]) AND EXISTS (SELECT FROM ok))`,
    values: ({ blobs }) => nulls(blobs, hashBytes),
  },
]

/** What a statement must prove about the lease. */
export interface LeaseClaim {
  /**
   * The engine. With `synchronous_commit = off`, a crash of the server can lose the newest owner and its token, so the next
   * owner may get the same token.
   */
  readonly owner: string
  readonly token: string
}

/** The lease whose row each statement checks. */
export interface CheckedLease {
  /** Its name, as SQL. */
  readonly name: string
  /** Whether a statement stores nothing once the time of the lease is over. */
  readonly ends: boolean
}

/**
 * The statements of one schema. A statement has only the parts that its set needs, so there are as many
 * statements as there are combinations in use; each is prepared once for a connection. A statement with all
 * parts takes about three times as long for a small commit.
 */
export class CommitStatements {
  readonly #schema: string
  readonly #lease: CheckedLease
  readonly #texts = new Map<number, { readonly text: string; readonly name: string }>()

  /** `schema` is quoted. */
  constructor(schema: string, lease: CheckedLease) {
    this.#schema = schema
    this.#lease = lease
  }

  /** One statement that checks the lease and the numbers of events, and stores the set if both are right. */
  statement(set: CommitSet, { owner, token }: LeaseClaim): Statement {
    if (this.#lease.ends) set.sort()
    const values: unknown[] = [token, owner]
    let mask = 0
    for (const [index, part] of parts.entries()) {
      const own = part.values(set)
      if (own === undefined) continue
      mask |= 1 << index
      values.push(...own)
    }
    return { ...this.#textOf(mask), values }
  }

  #textOf(mask: number): { readonly text: string; readonly name: string } {
    const known = this.#texts.get(mask)
    if (known !== undefined) return known
    const text = textOf(this.#schema, this.#lease, mask)
    const made = { text, name: statementName(text) }
    this.#texts.set(mask, made)
    return made
  }
}

function textOf(schema: string, lease: CheckedLease, mask: number): string {
  const [checks, changes]: [string[], string[]] = [[], []]
  const chosen = parts.filter((_, index) => (mask & (1 << index)) !== 0)
  // The first two parameters are the token and the owner.
  let used = 2
  for (const { check, change } of chosen) {
    const first = used
    const placeholder = (index: number): string => {
      used = Math.max(used, first + index + 1)
      return `$${first + index + 1}`
    }
    if (check !== undefined) checks.push(check(schema, placeholder, lease.ends))
    const changed = change?.(schema, placeholder, lease.ends) ?? ''
    if (changed !== '') changes.push(changed)
  }
  const [hasClaims, hasReplaced] = [chosen.includes(claimed), chosen.includes(replaced)]
  const hasHeads = chosen.includes(headed)
  const [hasKnown, hasRole] = [chosen.includes(known), chosen.includes(collecting)]
  const conditions = [
    ...(hasHeads ? ['(SELECT ids IS NULL FROM overtaken)'] : []),
    ...(hasClaims ? ['NOT (SELECT passed OR gap FROM claimed)'] : []),
    ...(hasReplaced ? ['NOT (SELECT missing FROM missing)'] : []),
    ...(hasKnown ? ['NOT (SELECT dropped FROM dropped)'] : []),
    ...(hasRole ? ['EXISTS (SELECT FROM role)'] : []),
  ]
  const queries = [
    // FOR SHARE waits for an engine that is taking the lease, and makes that engine wait for this statement.
    `lease AS (
      SELECT${lease.ends ? ' epoch' : ''} FROM ${schema}.leases
      WHERE name = '${lease.name}' AND token = $1::bigint AND owner = $2${
        lease.ends ? ' AND expires_at > clock_timestamp()' : ''
      } FOR SHARE)`,
    ...checks,
    `ok AS (SELECT${lease.ends ? ' epoch' : ''} FROM lease${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`})`,
    ...changes,
  ]
  const outcome = [
    'EXISTS (SELECT FROM lease)',
    ...(hasClaims ? ['(SELECT passed FROM claimed)', '(SELECT gap FROM claimed)'] : ['false', 'false']),
    hasReplaced ? '(SELECT missing FROM missing)' : 'false',
    hasHeads ? '(SELECT ids FROM overtaken)' : 'NULL',
    hasRole ? 'NOT EXISTS (SELECT FROM role)' : 'false',
    'EXISTS (SELECT FROM ok)',
    hasKnown ? '(SELECT dropped FROM dropped)' : 'false',
  ]
  return `WITH ${queries.join(',\n')}\nSELECT ${outcome.join(', ')}`
}

/** The outcome of a statement, from its row. */
export function statusOf(row: Row | undefined): CommitStatus {
  const [owned, passed, gap, missing] = (row ?? []).map((value) => value === 't')
  if (owned !== true) return 'taken'
  const overtaken = row?.[4]
  if (typeof overtaken === 'string')
    return { overtaken: new Set(overtaken.split(',').map((id) => Buffer.from(id, 'hex').toString())) }
  if (passed === true) return 'passed'
  if (gap === true) return 'gap'
  if (row?.[5] === 't') return 'ended'
  if (row?.at(-1) === 't') return 'dropped'
  return missing === true ? 'missing' : 'stored'
}

/** Statements of different schemas may share a connection, so a name depends on the text. */
export function statementName(text: string): string {
  return `forkspace_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`
}

/** The bytes of a hash in hex. */
export function hashBytes(hash: string): Buffer {
  return Buffer.from(hash, 'hex')
}

function eventValues(
  events: ReadonlyMap<string, ReadonlyMap<number, string>>,
): readonly unknown[] | undefined {
  if (events.size === 0) return undefined
  const [sessionIds, seqs, bodies]: [string[], number[], string[]] = [[], [], []]
  for (const [sessionId, ofSession] of events)
    for (const [seq, body] of ofSession) {
      sessionIds.push(sessionId)
      seqs.push(seq)
      bodies.push(body)
    }
  return [byteaArray(sessionIds), seqs, byteaArray(bodies)]
}

function objectValues(blobs: CommitSet['blobs']): readonly unknown[] | undefined {
  const [hashes, ids, sizes]: [Buffer[], string[], number[]] = [[], [], []]
  for (const [hash, content] of blobs) {
    if (!(content instanceof StoredObject)) continue
    hashes.push(hashBytes(hash))
    ids.push(content.id)
    sizes.push(content.size)
  }
  return ids.length === 0 ? undefined : [byteaArray(hashes), uuidArray(ids), sizes]
}

function pairs(
  map: ReadonlyMap<string, string | StoredContent | null>,
  keyOf: (key: string) => string | Uint8Array = (key) => key,
): readonly unknown[] | undefined {
  const [keys, values]: [(string | Uint8Array)[], (string | Uint8Array)[]] = [[], []]
  for (const [key, value] of map) {
    if (value === null || (typeof value !== 'string' && !isSent(value))) continue
    keys.push(keyOf(key))
    values.push(value)
  }
  return keys.length === 0 ? undefined : [byteaArray(keys), byteaArray(values)]
}

function nulls(
  map: ReadonlyMap<string, string | StoredContent | null>,
  keyOf: (key: string) => string | Uint8Array,
): readonly unknown[] | undefined {
  const keys = [...map].filter(([, value]) => value === null).map(([key]) => keyOf(key))
  return keys.length === 0 ? undefined : [byteaArray(keys)]
}
