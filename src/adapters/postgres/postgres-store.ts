import { keys, limits, parseEventText, type EngineError } from '../../engine/ports.js'
import type {
  ByteRange,
  CollectionEpoch,
  ScanRange,
  SessionInStore,
  SessionRecords,
  SharedCapability,
  SharedStore,
  Store,
  StoreCapabilities,
  StoreCommit,
  StoredBlobSize,
  StoredEvent,
} from '../../engine/ports.js'
import { byteaArray } from './arrays.js'
import type { BlobObjects } from './blob-objects.js'
import { Collections } from './collections.js'
import { CommitQueue } from './commit-queue.js'
import { StoredObject, type CommitSet } from './commit-set.js'
import {
  CommitStatements,
  hashBytes,
  statementName,
  statusOf,
  type CommitStatus,
} from './commit-statement.js'
import { run, type Connections, type PostgresClient, type Row } from './connections.js'
import {
  changedError,
  closedError,
  damagedEvent,
  expiredError,
  fencedError,
  isSwept,
  isTaken,
  keepsConnection,
  lostError,
  lostEvent,
  lostObject,
  noBlobsError,
  promotedError,
  readError,
  recoveryError,
  sweptError,
  takenError,
} from './errors.js'
import { isNodeKey, partsOf } from './key-ranges.js'
import type { Lease } from './lease.js'
import { postgresLimits } from './limits.js'
import { dataTables } from './migrations.js'

export interface PostgresStoreParts {
  readonly connections: Connections
  readonly lease: Lease
  /** Quoted. */
  readonly schema: string
  readonly durability: 'full' | 'relaxed'
  /** Present: other engines may have the schema open too. */
  readonly shared: SharedCapability | undefined
  /** The newest epoch of collections when this engine joined. */
  readonly joined: CollectionEpoch
  /** Present: large contents are objects of a bucket. */
  readonly objects: BlobObjects | undefined
}

/** A store in a schema of PostgreSQL, of which this process has the lease, or one of the leases. */
export class PostgresStore implements Store {
  readonly capabilities: StoreCapabilities
  readonly shared?: SharedStore
  readonly #connections: Connections
  readonly #lease: Lease
  readonly #collections: Collections
  readonly #schema: string
  readonly #statements: CommitStatements
  readonly #commits: CommitQueue
  readonly #objects: BlobObjects | undefined
  /** Names of prepared statements for reads, by their texts. */
  readonly #names = new Map<string, string>()
  #taken = false
  #losses = 0
  #recovering: Promise<void> | undefined
  #closing: Promise<void> | undefined

  constructor({ connections, lease, schema, durability, shared, joined, objects }: PostgresStoreParts) {
    const collections = new Collections(connections, schema, lease, hashBytes)
    this.capabilities = { durable: true, syncReads: false, ...(shared && { shared }) }
    if (shared !== undefined)
      this.shared = {
        engineId: lease.claim.owner,
        liveEngines: () => this.#liveEngines(),
        now: () => this.#now(),
        heads: (ids) => this.#heads(ids),
        session: (id, records) => this.#session(id, records),
        joined,
        get acknowledged() {
          return lease.epoch
        },
        epoch: () => this.#asked(() => collections.epoch()),
        publish: (of, pins, { acknowledges }) =>
          this.#asked(() => collections.publish(of, pins, acknowledges)),
        leave: () => lease.leave(),
        beginCollection: () => this.#asked(() => collections.begin()),
        nextEpoch: (stage) => this.#asked(() => collections.next(stage)),
        acknowledgement: (epoch) => this.#asked(() => collections.acknowledgement(epoch)),
        pins: (since) => collections.pins(since),
        sweep: ({ nodes = [], blobs = [] }, before) =>
          this.#asked(() => collections.sweep(nodes, blobs, before)),
        endCollection: () => this.#asked(() => collections.end()),
      }
    this.#connections = connections
    this.#lease = lease
    this.#collections = collections
    this.#schema = schema
    this.#objects = objects
    this.#statements = new CommitStatements(schema, lease.checked)
    this.#commits = new CommitQueue(
      (set) => this.#store(set),
      this.#lostLeaseError,
      () => collections.token,
    )
    // The server may have crashed, and have lost operations that the engine still has in memory.
    if (durability === 'relaxed')
      connections.onLost(() => {
        this.#noteLoss()
        this.#commits.fence(lostError())
      })
    // So may a standby that was promoted.
    connections.onPromoted(() => {
      this.#noteLoss()
      if (this.#commits.failed) return
      const error = promotedError()
      this.#commits.fence(error)
      throw error
    })
    lease.keep(
      () => this.#noteTaken(),
      () => this.#noteLoss(),
    )
  }

  commit(commit: StoreCommit): Promise<boolean> {
    if (this.#closing !== undefined) return Promise.reject(closedError())
    return this.#commits.add(commit)
  }

  async *events(
    sessionId: string,
    range: { from: number; to: number },
  ): AsyncGenerator<readonly StoredEvent[], void, undefined> {
    const last = Math.min(range.to, Number.MAX_SAFE_INTEGER)
    let count: number = limits.scannedAtFirst
    for (let first = Math.max(range.from, 1); first <= last;) {
      const rows = await this.#read(
        `SELECT seq, encode(body, 'hex') FROM ${this.#schema}.events
          WHERE session_id = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT ${count}`,
        [Buffer.from(sessionId), first, last],
      )
      const page: StoredEvent[] = []
      for (const row of rows) page.push(await eventOf(sessionId, row))
      // An event after a missing one exists, so the missing one did exist.
      for (const [index, { seq }] of page.entries())
        if (seq !== first + index) throw lostEvent(sessionId, first + index)
      if (page.length > 0) yield page
      if (page.length < count) return
      first += page.length
      const bytes = rows.reduce((sum, [, hex]) => sum + (hex?.length ?? 0) / 2, 0)
      const wanted = Math.ceil((limits.scannedBytes * count) / bytes)
      count = Math.max(1, Math.min(wanted, count * 4, limits.eventsPerRead))
    }
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const [row] = await this.#read(
      `SELECT seq, encode(body, 'hex') FROM ${this.#schema}.events WHERE session_id = $1 ORDER BY seq DESC LIMIT 1`,
      [Buffer.from(sessionId)],
    )
    return row && eventOf(sessionId, row)
  }

  async get(key: string): Promise<string | undefined> {
    const table = isNodeKey(key) ? 'nodes' : 'records'
    const [row] = await this.#read(
      `SELECT encode(value, 'hex') FROM ${this.#schema}.${table} WHERE key = $1`,
      [Buffer.from(key)],
    )
    return row && textOf(row[0])
  }

  async getNodes(key: string): Promise<ReadonlyMap<string, string>> {
    const { nodesAtOnce, nearNodeBytes, searchedNodeBytes } = postgresLimits
    // The escape format is ASCII in a database of any encoding.
    const rows = await this.#read(
      `WITH node AS (SELECT key, value FROM ${this.#schema}.nodes WHERE key = $1)
        SELECT encode(key, 'hex'), encode(value, 'hex') FROM node
        UNION ALL
        SELECT encode(near.key, 'hex'), encode(near.value, 'hex') FROM ${this.#schema}.nodes near
          WHERE near.key = ANY(ARRAY(
            SELECT decode($2 || found[1], 'escape') FROM node,
              regexp_matches(encode(substring(value FOR ${searchedNodeBytes}), 'escape'), '"([0-9a-f]{40})"', 'g') found
              LIMIT ${nodesAtOnce}
          )) AND octet_length(near.value) <= ${nearNodeBytes}`,
      [Buffer.from(key), keys.allNodes()],
    )
    return new Map(rows.map(([found, value]) => [textOf(found), textOf(value)]))
  }

  async scan({
    gte,
    lt,
    limit,
    reverse = false,
  }: ScanRange): Promise<readonly (readonly [string, string])[]> {
    this.#assertOpen()
    const found: (readonly [string, string])[] = []
    const parts = partsOf({ gte, lt })
    if (reverse) parts.reverse()
    for (const part of parts) {
      if (found.length >= limit) break
      const rows = await this.#read(
        `SELECT encode(key, 'hex'), encode(value, 'hex') FROM ${this.#schema}.${part.table}
          WHERE key >= $1 AND key < $2 ORDER BY key${reverse ? ' DESC' : ''} LIMIT $3`,
        [part.gte, part.lt, Number.isFinite(limit) ? limit - found.length : null],
      )
      for (const row of rows) found.push([textOf(row[0]), textOf(row[1])])
    }
    return found
  }

  async blob(hash: string, { offset, length }: ByteRange): Promise<Uint8Array | undefined> {
    for (let lost: string | undefined; ;) {
      const [row] = await this.#read(
        `SELECT encode(substring(bytes FROM $2 FOR $3), 'hex'), object, size FROM ${this.#schema}.blobs WHERE hash = $1`,
        // The largest values are far above the size of a blob, and their sum is still an integer of 32 bits.
        [
          hashBytes(hash),
          Math.min(offset, postgresLimits.valueBytes) + 1,
          Math.min(length, postgresLimits.valueBytes),
        ],
      )
      const [hex, id, size] = row ?? []
      if (typeof id !== 'string') return row && bytesOf(hex)
      // An object is deleted only after its row.
      if (id === lost) throw lostObject(hash)
      if (this.#objects === undefined) throw noBlobsError('a bucket')
      const found = await this.#objects.read(hash, new StoredObject(id, Number(size)), { offset, length })
      if (found !== undefined) return found
      lost = id
    }
  }

  async listBlobs(after: string, limit: number): Promise<readonly StoredBlobSize[]> {
    const rows = await this.#read(
      `SELECT encode(hash, 'hex'), coalesce(size, octet_length(bytes)) FROM ${this.#schema}.blobs WHERE hash > $1 ORDER BY hash LIMIT $2`,
      [hashBytes(after), limit],
    )
    return rows.map(([hash, bytes]) => ({ hash: String(hash), bytes: Number(bytes) }))
  }

  async size(): Promise<number> {
    const [row] = await this.#read(
      `SELECT sum(pg_total_relation_size(name::regclass)) + (SELECT coalesce(sum(size), 0) FROM ${this.#schema}.objects)
        FROM unnest($1::text[]) AS name`,
      [dataTables.map((table) => `${this.#schema}.${table}`)],
    )
    return Number(row?.[0])
  }

  /**
   * Lets the server use the space of deleted rows again, and return it to the system at the end of a table. Then deletes
   * objects that have been unused for long.
   */
  async reclaim({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    for (const table of dataTables) {
      signal?.throwIfAborted()
      this.#assertOpen()
      try {
        await this.#connections.once({ text: `VACUUM ${this.#schema}.${table}` }, postgresLimits.commitMs)
      } catch (error) {
        throw this.#asReadError(error)
      }
    }
    signal?.throwIfAborted()
    try {
      await this.#objects?.sweep(signal)
    } catch (error) {
      throw signal?.aborted === true ? error : this.#asReadError(error)
    }
  }

  recover(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(closedError())
    if (!this.#commits.failed) return Promise.resolve()
    this.#recovering ??= this.#recover().finally(() => (this.#recovering = undefined))
    return this.#recovering
  }

  losses(): number {
    return this.#losses
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #recover(): Promise<void> {
    if (this.#taken) throw takenError()
    await this.#commits.drain()
    this.#connections.dropWriter()
    try {
      await this.#connections.write((client) => this.#lease.renewToken(client))
    } catch (error) {
      if (isTaken(error)) this.#noteTaken()
      throw recoveryError(error)
    }
    this.#commits.resume()
  }

  /** Notes that the store may have lost stored operations. */
  #noteLoss(): void {
    this.#losses++
    this.#collections.lost()
  }

  /** From now on, this engine can store nothing; on a shared store, not before it has another lease. */
  #noteTaken(): void {
    if (this.capabilities.shared === undefined) this.#taken = true
    this.#commits.fence(this.#lostLeaseError())
  }

  readonly #lostLeaseError = (): EngineError =>
    this.capabilities.shared === undefined ? takenError() : expiredError()

  async #liveEngines(): Promise<ReadonlySet<string>> {
    const rows = await this.#read(
      `SELECT owner FROM ${this.#schema}.leases WHERE starts_with(name, 'engine:') AND expires_at > clock_timestamp()`,
      [],
    )
    return new Set(rows.map(([owner]) => String(owner)))
  }

  async #now(): Promise<number> {
    const [row] = await this.#read('SELECT round(extract(epoch FROM clock_timestamp()) * 1000)', [])
    return Number(row?.[0])
  }

  async #asked<T>(ask: () => Promise<T>): Promise<T> {
    this.#assertOpen()
    try {
      return await ask()
    } catch (error) {
      throw this.#asReadError(error)
    }
  }

  async #heads(sessionIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#read(
      `SELECT encode(session_id, 'hex'), head FROM ${this.#schema}.heads WHERE session_id = ANY($1::bytea[])`,
      [byteaArray(sessionIds)],
    )
    return new Map(rows.map(([sessionId, head]) => [textOf(sessionId), String(head)]))
  }

  /** One statement has one snapshot of all tables. */
  async #session(id: string, { key, gte, lt }: SessionRecords): Promise<SessionInStore> {
    const [row] = await this.#read(
      `SELECT (SELECT head FROM ${this.#schema}.heads WHERE session_id = $1),
        (SELECT encode(value, 'hex') FROM ${this.#schema}.records WHERE key = $2),
        (SELECT max(seq) FROM ${this.#schema}.events WHERE session_id = $1),
        (SELECT string_agg(encode(key, 'hex') || ':' || encode(value, 'hex'), ',' ORDER BY key)
          FROM ${this.#schema}.records WHERE key >= $3 AND key < $4)`,
      [id, key, gte, lt].map((text) => Buffer.from(text)),
    )
    const [head, record, seq, others] = row ?? []
    return {
      head: head ?? undefined,
      record: typeof record === 'string' ? textOf(record) : undefined,
      others: (others ?? '').split(',').flatMap((other) => {
        const [found, value] = other.split(':')
        return value === undefined ? [] : [[textOf(found), textOf(value)] as const]
      }),
      seq: Number(seq ?? 0),
    }
  }

  async #close(): Promise<void> {
    await this.#recovering?.catch(ignore)
    await this.#commits.drain()
    await this.#lease.stop()
    // After a failed commit, only a new connection shows that the lost statement has ended.
    if (this.#commits.failed) this.#connections.dropWriter()
    if (!this.#taken) await this.#connections.write((client) => this.#lease.release(client)).catch(ignore)
    await this.#connections.close()
  }

  /** Stores a set: with one statement, or with several in one transaction if it is very large. */
  async #store(set: CommitSet): Promise<CommitStatus> {
    await this.#objects?.upload(set)
    try {
      let status = await this.#send(set)
      if (status === 'dropped') {
        await this.#objects?.uploadDropped(set)
        status = await this.#send(set)
      }
      if (status === 'taken' && this.capabilities.shared === undefined) this.#taken = true
      if (status === 'stored') this.#objects?.settle(set)
      return status
    } catch (error) {
      this.#objects?.settle(set)
      throw isSwept(error) ? sweptError(error) : error
    }
  }

  #send(set: CommitSet): Promise<CommitStatus> {
    return this.#connections.write(async (client) => {
      // The connection was lost while the commit waited. The server may lack what the commit builds on.
      if (this.#commits.failed) throw fencedError(lostError())
      return set.bytes <= postgresLimits.statementBytes
        ? this.#storeSet(client, set)
        : this.#storeParts(client, set)
    })
  }

  async #storeSet(client: PostgresClient, set: CommitSet): Promise<CommitStatus> {
    const [row] = await run(
      client,
      this.#statements.statement(set, this.#lease.claim),
      postgresLimits.commitMs,
    )
    const status = statusOf(row)
    if (status === 'taken' && (await this.#lease.haveTablesChanged(client))) throw changedError()
    return status
  }

  async #storeParts(client: PostgresClient, set: CommitSet): Promise<CommitStatus> {
    // The transaction locks rows until its end, so the order of all parts together counts.
    if (this.capabilities.shared !== undefined) set.sort()
    await run(client, { text: 'BEGIN' }, postgresLimits.commitMs)
    try {
      for (const part of set.split(postgresLimits.groupBytes)) {
        const status = await this.#storeSet(client, part)
        if (status === 'stored') continue
        await run(client, { text: 'ROLLBACK' }, postgresLimits.commitMs)
        return status
      }
      await run(client, { text: 'COMMIT' }, postgresLimits.commitMs)
      return 'stored'
    } catch (error) {
      // If the connection is lost, the server rolls back by itself.
      if (keepsConnection(error))
        await run(client, { text: 'ROLLBACK' }, postgresLimits.commitMs).catch(ignore)
      throw error
    }
  }

  async #read(text: string, values: readonly unknown[]): Promise<Row[]> {
    this.#assertOpen()
    let name = this.#names.get(text)
    if (name === undefined) this.#names.set(text, (name = statementName(text)))
    try {
      return await this.#connections.read({ text, name, values })
    } catch (error) {
      throw this.#asReadError(error)
    }
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw closedError()
  }

  #asReadError(error: unknown): unknown {
    return this.#closing === undefined ? readError(error) : closedError()
  }
}

function bytesOf(hex: string | null | undefined): Buffer {
  return Buffer.from(hex ?? '', 'hex')
}

function textOf(hex: string | null | undefined): string {
  return bytesOf(hex).toString()
}

async function eventOf(sessionId: string, [number, hex]: Row): Promise<StoredEvent> {
  const seq = Number(number)
  try {
    const body = await parseEventText(textOf(hex))
    if (Array.isArray(body)) return { sessionId, seq, body }
  } catch (error) {
    throw damagedEvent(sessionId, seq, { cause: error })
  }
  throw damagedEvent(sessionId, seq)
}

function ignore(): void {}
