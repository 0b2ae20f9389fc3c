/**
 * Storage in a schema of PostgreSQL.
 *
 * @module
 */
import pg from 'pg'
import { given, invalid, parseFlag, Shape } from '../../engine/ports.js'
import type { Storage } from '../../engine/ports.js'
import type { BlobBucket } from './blob-bucket.js'
import { checkPool, type PostgresPool } from './connections.js'
import { postgresLimits } from './limits.js'
import { openPostgresStore } from './open-store.js'

export type { Storage } from '../../engine/ports.js'
export type { BlobBucket, ListedObject } from './blob-bucket.js'
export type {
  PostgresClient,
  PostgresPool,
  PostgresQuery,
  PostgresRows,
  PostgresTypes,
} from './connections.js'

/** Options of {@link postgresStorage}. Exactly one of `connectionString`, `client` and `pool` is required. */
export interface PostgresStorageOptions {
  /** The server and the database: `postgres://user:password@host:5432/database`. */
  readonly connectionString?: string
  /**
   * Makes a `Client` of `pg` that is not connected yet, for settings that a connection string cannot have. It is
   * called for each new connection.
   */
  readonly client?: () => object
  /**
   * A `Pool` of `pg` with at least two connections. The store takes one of them for its commits until it is
   * closed, and never ends the pool. It waits for another one at most 60 seconds, or as long as the pool does.
   */
  readonly pool?: PostgresPool
  /** The schema of the store, `forkspace` by default. Opening the engine creates it if it does not exist. */
  readonly schema?: string
  /**
   * The failures that an acknowledged operation survives.
   *
   * - `full`, the default: also a crash of the server and a power cut. A commit waits for the disk of the server,
   *   even if its setting `synchronous_commit` is off. A server with `fsync = off` is refused.
   * - `relaxed`: the end of this process. A crash of the server may lose the newest operations, for tests and
   *   caches.
   */
  readonly durability?: 'full' | 'relaxed'
  /** Connections for reads, 4 by default, at most 100. With `pool`, its own settings apply. */
  readonly readConnections?: number
  /**
   * How long the store stays locked after its process was killed, in seconds. 30 by default, from 1 to 3600. The
   * clock of the server decides.
   */
  readonly leaseSeconds?: number
  /**
   * true: several engines, in this and in other processes, work on the schema at the same time. All of them must pass it.
   * false by default.
   */
  readonly shared?: boolean
  /**
   * Only with `shared`, the longest time after which a call sees what another engine has stored, in milliseconds. 100 by
   * default, from 1 to 60000.
   */
  readonly freshnessMillis?: number
  /**
   * Where large contents are stored: `s3Blobs({ … })` of `forkspace/s3`. By default, all contents are in the database. A
   * store that was opened with it must always be.
   */
  readonly blobs?: BlobBucket
}

const optionsShape = new Shape<PostgresStorageOptions>({
  connectionString: true,
  client: true,
  pool: true,
  schema: true,
  durability: true,
  readConnections: true,
  leaseSeconds: true,
  shared: true,
  freshnessMillis: true,
  blobs: true,
})

/**
 * Storage in a schema of a PostgreSQL database, version 12 or newer. It needs the package `pg`. This call itself
 * opens no connection, and its result can be opened again after the engine was closed.
 *
 * Guarantees
 * - An operation whose promise resolved is committed. With `durability: 'full'` it survives a crash of this
 *   process and of the server. An operation is stored completely or not at all.
 * - One statement, and so one round trip, stores an operation, or all operations that wait at the same time.
 * - Only one engine at a time can write to a schema. It has a lease, which it renews. An engine whose lease was
 *   taken over stores nothing more.
 * - With `shared: true`, several engines write to a schema. Each acknowledged operation is stored once, and operations on
 *   one session take effect in one order. An engine whose lease has expired stores nothing before it has another one.
 * - After a failed write, the store accepts no further writes until it has recovered. Reads continue.
 *
 * Not guaranteed: synchronous reads of data that is not in memory (`WOULD_BLOCK`), and connection poolers that give
 * each transaction another connection.
 *
 * Errors of opening, by reason
 * - `STORE_LOCKED` another engine has the lease, or other engines share the schema. `details.host`, `details.pid`,
 *   `details.since` and `details.expiresInSeconds` describe it.
 * - `STORE_FORMAT` the schema has other tables, its tables are newer than this version supports, or a table was emptied.
 *   Nothing was changed.
 * - `PERMISSION_DENIED` the server refused the login, or the role may not use the schema.
 * - `STORE_FAILED` the server could not be reached, or is a standby.
 *
 * Errors of use, by reason
 * - `STORE_FAILED`, `STORE_FULL` a write failed. `details.outcome` is `unknown` if it may be stored, and
 *   `not-applied` if it is not.
 * - `SESSION_MOVED` with `shared`, other engines changed the session each time that the operation was tried.
 * - `SHARED_STORE` the operation does not work with `shared`.
 * - `STORE_TAKEN` another engine took over the store after the lease had expired. Close this engine.
 * - `STORE_MOVED` the schema was renamed, dropped or replaced, or a table was emptied. Put it back, or close this engine.
 * - `STORE_CLOSED` the engine was closed.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option has the wrong form
 *
 * @example
 * import { openEngine } from 'forkspace'
 * import { postgresStorage } from 'forkspace/postgres'
 *
 * const storage = postgresStorage({ connectionString: 'postgres://app:secret@localhost/app' })
 * const engine = await openEngine({ storage })
 * await engine.close()
 */
export function postgresStorage(options: PostgresStorageOptions): Storage {
  const {
    connectionString,
    client,
    pool,
    schema = 'forkspace',
    durability = 'full',
    readConnections = postgresLimits.readConnections,
    leaseSeconds = postgresLimits.leaseSeconds,
    shared: isShared,
    freshnessMillis: givenFreshness,
    blobs,
  } = optionsShape.read(options, 'options')
  const sources = [connectionString, client, pool].filter((source) => source !== undefined)
  if (sources.length !== 1)
    throw invalid(
      'options',
      `must have one of connectionString, client and pool; it has ${sources.length} of them`,
    )
  if (connectionString !== undefined) checkConnectionString(connectionString)
  if (client !== undefined && typeof client !== 'function')
    throw invalid('client', 'must be a function that returns a new Client of pg')
  if (pool !== undefined) checkPool(pool)
  checkSchema(schema)
  if (durability !== 'full' && durability !== 'relaxed')
    throw invalid('durability', `must be 'full' or 'relaxed'; it is ${given(durability)}`)
  checkCount('readConnections', readConnections, 1, postgresLimits.readConnectionsMax)
  checkCount('leaseSeconds', leaseSeconds, postgresLimits.leaseSecondsMin, postgresLimits.leaseSecondsMax)
  const shared = parseFlag('shared', isShared, false)
  if (givenFreshness !== undefined && isShared === undefined)
    throw invalid('freshnessMillis', 'needs shared: true: without it, the engine has the store alone')
  const freshnessMillis = givenFreshness ?? postgresLimits.freshnessMs
  checkCount('freshnessMillis', freshnessMillis, postgresLimits.freshnessMsMin, postgresLimits.freshnessMsMax)
  if (blobs !== undefined) checkBlobs(blobs)
  const settings = { schema, durability, leaseSeconds, shared, freshnessMillis, blobs }
  return {
    open: async () => {
      if (pool !== undefined) return openPostgresStore(pool, () => Promise.resolve(), settings)
      const own = makePool({ connectionString, client, readConnections })
      return openPostgresStore(own, () => own.end(), settings)
    },
  }
}

interface PoolSource {
  readonly connectionString: string | undefined
  readonly client: (() => object) | undefined
  readonly readConnections: number
}

function makePool({ connectionString, client, readConnections }: PoolSource): pg.Pool {
  let pool: pg.Pool
  try {
    // A pool would parse the string only when it connects.
    if (connectionString !== undefined) Reflect.construct(pg.Client, [{ connectionString }])
    pool = new pg.Pool({
      ...(connectionString !== undefined && { connectionString }),
      ...(client !== undefined && { Client: classOf(client) }),
      // One more for commits.
      max: readConnections + 1,
      connectionTimeoutMillis: postgresLimits.connectMs,
      keepAlive: true,
      allowExitOnIdle: true,
      application_name: 'forkspace',
    })
  } catch {
    // The error of the parser may contain the string, so it is no cause.
    throw unreadable()
  }
  // A lost idle connection is replaced by the next read.
  pool.on('error', ignore)
  return pool
}

/** `pg` makes clients with `new`. A constructor may return another object. */
function classOf(client: () => object): new () => pg.Client {
  return function () {
    return client()
  } as unknown as new () => pg.Client
}

/** The string may contain a password, so no error repeats it. */
function checkConnectionString(value: unknown): void {
  if (typeof value !== 'string' || !/^postgres(ql)?:\/\//.test(value) || value.includes('\0'))
    throw unreadable()
}

function unreadable(): Error {
  return invalid('connectionString', 'must be a URL such as postgres://user:password@host:5432/database')
}

function checkSchema(schema: unknown): void {
  if (typeof schema !== 'string' || schema === '' || schema.includes('\0') || !schema.isWellFormed())
    throw invalid('schema', `must be the name of a schema; it is ${given(schema)}`)
  if (Buffer.byteLength(schema) > postgresLimits.schemaBytes)
    throw invalid('schema', `must have at most ${postgresLimits.schemaBytes} bytes; it is ${given(schema)}`)
  if (schema.startsWith('pg_') || schema === 'information_schema')
    throw invalid('schema', `must not be a schema of PostgreSQL itself; it is ${given(schema)}`)
}

function checkBlobs(blobs: unknown): void {
  if (typeof blobs !== 'object' || blobs === null || typeof Reflect.get(blobs, 'put') !== 'function')
    throw invalid('blobs', 'must be a bucket, such as s3Blobs({ … }) of forkspace/s3')
}

function checkCount(name: string, value: unknown, min: number, max: number): void {
  if (!Number.isInteger(value) || (value as number) < min || (value as number) > max)
    throw invalid(name, `must be an integer from ${min} to ${max}; it is ${given(value)}`)
}

function ignore(): void {}
