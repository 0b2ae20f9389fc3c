import { createHash } from 'node:crypto'
import { itemAt, present } from '../../engine/ports.js'
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
  /** Nothing is stored: another engine has the lease, that of this engine has expired, or the tables have changed. */
  | 'taken'

/** Begins the outcome of a statement that found other heads. The ids of their sessions follow, in hex. */
const overtakenMark = 'overtaken '

type ColumnType = 'bigint' | 'bytea' | 'integer' | 'text' | 'uuid'
type Value = number | string | Uint8Array

/** A part of a statement, with rows of its own. */
interface Part {
  /** The names and types of the columns of these rows. */
  readonly columns: Readonly<Record<string, ColumnType>>
  /** Queries that look for reasons to store nothing. They run before any change. */
  readonly check?: (query: PartQuery) => string
  /** The conditions for storing nothing, each with the outcome as SQL. The first one that holds decides. */
  readonly refusals?: readonly (readonly [condition: string, outcome: string])[]
  /** A query that changes rows if the query `ok` has a row. */
  readonly change?: (query: PartQuery) => string
  /** The values of each column; undefined if the set needs no such part. */
  readonly values: (set: CommitSet) => readonly (readonly Value[])[] | undefined
}

/** The names that the text of a part contains. */
class PartQuery {
  readonly schema: string
  /** Whether rows get the epoch of the lease. */
  readonly isStamped: boolean
  readonly #columns: readonly (readonly [name: string, type: ColumnType])[]
  readonly #first: number
  readonly #isSingle: boolean

  /** `first` is the number of the first parameter. If `isSingle` is true, each parameter is a value, else an array. */
  constructor(
    { columns }: Part,
    form: {
      readonly schema: string
      readonly isStamped: boolean
      readonly first: number
      readonly isSingle: boolean
    },
  ) {
    this.schema = form.schema
    this.isStamped = form.isStamped
    this.#columns = Object.entries(columns)
    this.#first = form.first
    this.#isSingle = form.isSingle
  }

  /** The rows of the part, for a FROM clause. */
  rows(alias: string): string {
    const values = this.#columns.map(([name]) => this.#parameter(name))
    const names = this.#columns.map(([name]) => name).join(', ')
    return this.#isSingle
      ? `(VALUES (${values.join(', ')})) AS ${alias}(${names})`
      : `unnest(${values.join(', ')}) AS ${alias}(${names})`
  }

  /** An array with the values of a column. */
  list(name: string): string {
    return this.#isSingle ? `ARRAY[${this.#parameter(name)}]` : this.#parameter(name)
  }

  #parameter(name: string): string {
    const index = this.#columns.findIndex((column) => column[0] === name)
    return `$${this.#first + index}::${itemAt(this.#columns, index)[1]}${this.#isSingle ? '' : '[]'}`
  }
}

/**
 * The part with the heads of sessions. It locks them in the order of their keys, so two statements never wait for each
 * other. A statement that waited for another one compares the new head.
 */
const headed: Part = {
  columns: { session_id: 'bytea', head: 'text', next: 'text' },
  check: (query) =>
    `held AS MATERIALIZED (
      SELECT h.session_id FROM ${query.rows('c')}
      JOIN ${query.schema}.heads h ON h.session_id = c.session_id AND h.head = c.head
      ORDER BY h.session_id FOR UPDATE OF h),
    overtaken AS (
      SELECT string_agg(encode(c.session_id, 'hex'), ',') AS ids FROM ${query.rows('c')}
      WHERE NOT EXISTS (SELECT FROM held h WHERE h.session_id = c.session_id)
        AND (c.head <> '' OR EXISTS (SELECT FROM ${query.schema}.heads h WHERE h.session_id = c.session_id)))`,
  refusals: [
    ['(SELECT ids IS NOT NULL FROM overtaken)', `(SELECT '${overtakenMark}' || ids FROM overtaken)`],
  ],
  change: (query) =>
    `moved AS (
      UPDATE ${query.schema}.heads h SET head = c.next FROM ok, ${query.rows('c')}
      WHERE h.session_id = c.session_id AND c.head <> ''),
    begun AS (
      INSERT INTO ${query.schema}.heads (session_id, head)
      SELECT c.session_id, c.next FROM ok, ${query.rows('c')} WHERE c.head = '')`,
  values: ({ heads }) => {
    if (heads.size === 0) return undefined
    const moves = [...heads].toSorted(([a], [b]) => (a < b ? -1 : 1))
    return [
      moves.map(([sessionId]) => sessionId),
      moves.map(([, { from }]) => from),
      moves.map(([, { to }]) => to),
    ]
  },
}

/** The part with the numbers that new events must have. */
const claimed: Part = {
  columns: { session_id: 'bytea', first: 'bigint' },
  check: (query) =>
    `claimed AS (
      SELECT bool_or(c.first <= n.last) AS passed, bool_or(c.first > n.last + 1) AS gap
      FROM ${query.rows('c')}, LATERAL (
        SELECT coalesce(max(e.seq), 0) AS last FROM ${query.schema}.events e WHERE e.session_id = c.session_id) n)`,
  refusals: [
    ['(SELECT passed FROM claimed)', `'passed'`],
    ['(SELECT gap FROM claimed)', `'gap'`],
  ],
  values: ({ claims }) =>
    claims.size === 0 ? undefined : [[...claims.keys()], [...claims.values()].map(({ first }) => first)],
}

/** The part of a collection: it changes something only while its engine has the right to collect. */
const collecting: Part = {
  columns: { token: 'bigint' },
  check: (query) =>
    `role AS (
      SELECT FROM ${query.schema}.collections WHERE owner = $2 AND token = ANY(${query.list('token')}) FOR SHARE)`,
  refusals: [['NOT EXISTS (SELECT FROM role)', `'ended'`]],
  values: ({ collector }) => (collector === undefined ? undefined : [[collector]]),
}

/** The part with contents that the store must have. A deletion of one waits for this statement. */
const known: Part = {
  columns: { hash: 'bytea' },
  check: (query) =>
    `known AS MATERIALIZED (
      SELECT b.hash FROM ${query.schema}.blobs b WHERE b.hash = ANY(${query.list('hash')})
      ORDER BY b.hash FOR KEY SHARE),
    dropped AS (SELECT cardinality(${query.list('hash')}) > count(*) AS dropped FROM known)`,
  refusals: [['(SELECT dropped FROM dropped)', `'dropped'`]],
  change: (query) =>
    query.isStamped
      ? `touched AS (
          UPDATE ${query.schema}.blobs b SET epoch = ok.epoch FROM ok
          WHERE b.hash = ANY(${query.list('hash')}) AND b.epoch < ok.epoch)`
      : '',
  values: ({ blobs }) => {
    const hashes = [...blobs].filter(([, content]) => content instanceof KnownContent)
    return hashes.length === 0 ? undefined : [hashes.map(([hash]) => hashBytes(hash))]
  },
}

/** The part with new bodies of stored events. */
const replaced: Part = {
  columns: { session_id: 'bytea', seq: 'bigint', body: 'bytea' },
  check: (query) =>
    `missing AS (
      SELECT count(*) > 0 AS missing FROM ${query.rows('r')}
      WHERE NOT EXISTS (
        SELECT FROM ${query.schema}.events e WHERE e.session_id = r.session_id AND e.seq = r.seq))`,
  refusals: [['(SELECT missing FROM missing)', `'missing'`]],
  change: (query) =>
    `replaced AS (
      UPDATE ${query.schema}.events e SET body = r.body FROM ok, ${query.rows('r')}
      WHERE e.session_id = r.session_id AND e.seq = r.seq)`,
  values: ({ replaced }) => eventValues(replaced),
}

/**
 * The end of each query that adds contents, whether they are bytes or objects. The part `known` replaces such a query for
 * contents that the store has. `known` changes the same columns as this end.
 */
function ifBlobExists({ isStamped }: PartQuery): string {
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
  collecting,
  known,
  replaced,
  {
    columns: { session_id: 'bytea', seq: 'bigint', body: 'bytea' },
    change: (query) =>
      `added AS (
        INSERT INTO ${query.schema}.events (session_id, seq, body) SELECT e.* FROM ok, ${query.rows('e')})`,
    values: ({ events }) => eventValues(events),
  },
  ...(['events', 'heads'] as const).map((table): Part => ({
    columns: { session_id: 'bytea' },
    change: (query) =>
      `forgotten_${table} AS (
          DELETE FROM ${query.schema}.${table}
          WHERE session_id = ANY(${query.list('session_id')}) AND EXISTS (SELECT FROM ok))`,
    values: ({ deletedSessions }) => (deletedSessions.size === 0 ? undefined : [[...deletedSessions]]),
  })),
  ...(['records', 'nodes'] as const).flatMap((table): Part[] => [
    {
      columns: { key: 'bytea', value: 'bytea' },
      change: (query) => {
        const hasEpoch = query.isStamped && table === 'nodes'
        return `put_${table} AS (
          INSERT INTO ${query.schema}.${table} AS t (key, value${hasEpoch ? ', epoch' : ''})
          SELECT r.*${hasEpoch ? ', ok.epoch' : ''} FROM ok, ${query.rows('r')}
          ON CONFLICT (key) DO UPDATE SET value = excluded.value${
            hasEpoch ? ', epoch = greatest(t.epoch, excluded.epoch)' : ''
          })`
      },
      values: (set) => pairs(set[table]),
    },
    {
      columns: { key: 'bytea' },
      change: (query) =>
        `deleted_${table} AS (
          DELETE FROM ${query.schema}.${table}
          WHERE key = ANY(${query.list('key')}) AND EXISTS (SELECT FROM ok))`,
      values: (set) => nulls(set[table], (key) => key),
    },
  ]),
  {
    columns: { hash: 'bytea', bytes: 'bytea' },
    change: (query) =>
      `added_blobs AS (
        INSERT INTO ${query.schema}.blobs AS b (hash, bytes${query.isStamped ? ', epoch' : ''})
        SELECT c.*${query.isStamped ? ', ok.epoch' : ''} FROM ok, ${query.rows('c')}
        ${ifBlobExists(query)})`,
    values: ({ blobs }) => pairs(blobs, hashBytes),
  },
  {
    columns: { hash: 'bytea', id: 'uuid', size: 'integer' },
    // An object whose id is taken already may have been deleted. The whole statement then fails.
    change: (query) =>
      `used_objects AS (
        INSERT INTO ${query.schema}.objects (id, size) SELECT o.id, o.size FROM ok, ${query.rows('o')}),
      added_objects AS (
        INSERT INTO ${query.schema}.blobs AS b (hash, object, size${query.isStamped ? ', epoch' : ''})
        SELECT o.*${query.isStamped ? ', ok.epoch' : ''} FROM ok, ${query.rows('o')}
        ${ifBlobExists(query)})`,
    values: ({ blobs }) => objectValues(blobs),
  },
  {
    columns: { hash: 'bytea' },
    change: (query) =>
      `deleted_blobs AS (
        DELETE FROM ${query.schema}.blobs WHERE hash = ANY(${query.list('hash')}) AND EXISTS (SELECT FROM ok))`,
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
  /** The files of the tables from which the engine read its state. */
  readonly files: string
}

/** The lease whose row each statement checks. */
export interface CheckedLease {
  /** The condition of its row, as SQL. It holds only in the tables that the engine opened. */
  readonly row: string
  /** The files of the tables, as SQL. After another program emptied or restored tables, these are others. */
  readonly files: string
  /** Whether a statement stores nothing once the time of the lease is over. */
  readonly ends: boolean
}

/** The form of a statement has a bit for each of its parts, and this one if each of them has one row. */
const singleBit = 1 << parts.length

/**
 * The statements of one schema. A statement has only the parts that its set needs, so there are as many
 * statements as there are combinations in use; each is prepared once for a connection. A statement with all
 * parts takes about three times as long for a small commit. If each part has one row, as for most small commits, values in
 * place of arrays take less time.
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
  statement(set: CommitSet, { owner, token, files }: LeaseClaim): Statement {
    if (this.#lease.ends) set.sort()
    const columns: (readonly [type: ColumnType, values: readonly Value[]])[] = []
    let form = singleBit
    for (const [index, part] of parts.entries()) {
      const values = part.values(set)
      if (values === undefined) continue
      form |= 1 << index
      for (const [place, type] of Object.values(part.columns).entries())
        columns.push([type, itemAt(values, place)])
      if (itemAt(values, 0).length > 1) form &= ~singleBit
    }
    const parameter = (form & singleBit) === 0 ? arrayOf : onlyValue
    return {
      ...this.#textOf(form),
      values: [token, owner, files, ...columns.map(([type, values]) => parameter(type, values))],
    }
  }

  #textOf(form: number): { readonly text: string; readonly name: string } {
    const known = this.#texts.get(form)
    if (known !== undefined) return known
    const text = textOf(this.#schema, this.#lease, form)
    const made = { text, name: statementName(text) }
    this.#texts.set(form, made)
    return made
  }
}

function arrayOf(type: ColumnType, values: readonly Value[]): unknown {
  if (type === 'bytea') return byteaArray(values as readonly (string | Uint8Array)[])
  return type === 'uuid' ? uuidArray(values as readonly string[]) : values
}

function onlyValue(type: ColumnType, values: readonly Value[]): unknown {
  const value = itemAt(values, 0)
  return type === 'bytea' && typeof value === 'string' ? Buffer.from(value) : value
}

function textOf(schema: string, lease: CheckedLease, form: number): string {
  const [checks, changes]: [string[], string[]] = [[], []]
  const refusals: (readonly [condition: string, outcome: string])[] = [
    ['NOT EXISTS (SELECT FROM lease)', `'taken'`],
  ]
  // The first three parameters are the token, the owner and the files of the tables.
  let first = 4
  for (const [index, part] of parts.entries()) {
    if ((form & (1 << index)) === 0) continue
    const isSingle = (form & singleBit) !== 0
    const query = new PartQuery(part, { schema, isStamped: lease.ends, first, isSingle })
    first += Object.keys(part.columns).length
    if (part.check !== undefined) checks.push(part.check(query))
    const change = part.change?.(query) ?? ''
    if (change !== '') changes.push(change)
    refusals.push(...(part.refusals ?? []))
  }
  const conditions = refusals.slice(1).map(([condition]) => `NOT ${condition}`)
  const epoch = lease.ends ? ' epoch' : ''
  const queries = [
    // FOR SHARE waits for an engine that is taking the lease, and makes that engine wait for this statement.
    `lease AS (
      SELECT${epoch} FROM ${schema}.leases
      WHERE ${lease.row} AND token = $1::bigint AND owner = $2 AND ${lease.files} = $3${
        lease.ends ? ' AND expires_at > clock_timestamp()' : ''
      } FOR SHARE)`,
    ...checks,
    `ok AS (SELECT${epoch} FROM lease${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`})`,
    ...changes,
  ]
  const outcomes = refusals.map(([condition, outcome]) => `WHEN ${condition} THEN ${outcome}`)
  return `WITH ${queries.join(',\n')}\nSELECT CASE ${outcomes.join(' ')} ELSE 'stored' END`
}

/** The outcome of a statement, from its row. */
export function statusOf(row: Row | undefined): CommitStatus {
  const outcome = present(row?.[0] ?? undefined, 'the outcome of a statement')
  if (!outcome.startsWith(overtakenMark)) return outcome as CommitStatus
  const ids = outcome.slice(overtakenMark.length).split(',')
  return { overtaken: new Set(ids.map((id) => Buffer.from(id, 'hex').toString())) }
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
): readonly (readonly Value[])[] | undefined {
  if (events.size === 0) return undefined
  const [sessionIds, seqs, bodies]: [string[], number[], string[]] = [[], [], []]
  for (const [sessionId, ofSession] of events)
    for (const [seq, body] of ofSession) {
      sessionIds.push(sessionId)
      seqs.push(seq)
      bodies.push(body)
    }
  return [sessionIds, seqs, bodies]
}

function objectValues(blobs: CommitSet['blobs']): readonly (readonly Value[])[] | undefined {
  const [hashes, ids, sizes]: [Buffer[], string[], number[]] = [[], [], []]
  for (const [hash, content] of blobs) {
    if (!(content instanceof StoredObject)) continue
    hashes.push(hashBytes(hash))
    ids.push(content.id)
    sizes.push(content.size)
  }
  return ids.length === 0 ? undefined : [hashes, ids, sizes]
}

function pairs(
  map: ReadonlyMap<string, string | StoredContent | null>,
  keyOf: (key: string) => string | Uint8Array = (key) => key,
): readonly (readonly Value[])[] | undefined {
  const [keys, values]: [(string | Uint8Array)[], (string | Uint8Array)[]] = [[], []]
  for (const [key, value] of map) {
    if (value === null || (typeof value !== 'string' && !isSent(value))) continue
    keys.push(keyOf(key))
    values.push(value)
  }
  return keys.length === 0 ? undefined : [keys, values]
}

function nulls(
  map: ReadonlyMap<string, string | StoredContent | null>,
  keyOf: (key: string) => string | Uint8Array,
): readonly (readonly Value[])[] | undefined {
  const keys = [...map].filter(([, value]) => value === null).map(([key]) => keyOf(key))
  return keys.length === 0 ? undefined : [keys]
}
