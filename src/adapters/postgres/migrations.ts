import { createHash } from 'node:crypto'
import { run, type PostgresClient } from './connections.js'
import { emptiedStore, formatError, olderEngine } from './errors.js'
import { postgresLimits } from './limits.js'

/** The tables of a store, and why each version differs from the one before it. The schema is quoted. */
const migrations: readonly ((schema: string) => readonly string[])[] = [
  // Version 1. Keys and values are bytes: the order of bytea is the order of bytes, whatever the locale and
  // the encoding of the database, and a value may have the byte 0. Blobs are not compressed, so that a part of
  // one can be read alone.
  (schema) => [
    `CREATE TABLE ${schema}.records (key bytea PRIMARY KEY, value bytea NOT NULL) WITH (fillfactor = 85)`,
    `CREATE TABLE ${schema}.nodes (key bytea PRIMARY KEY, value bytea NOT NULL)`,
    `CREATE TABLE ${schema}.events (
      session_id bytea NOT NULL, seq bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (session_id, seq)
    )`,
    `CREATE TABLE ${schema}.blobs (hash bytea PRIMARY KEY, bytes bytea NOT NULL)`,
    `ALTER TABLE ${schema}.blobs ALTER COLUMN bytes SET STORAGE EXTERNAL`,
    `CREATE TABLE ${schema}.leases (
      name text PRIMARY KEY, owner uuid, host text, pid integer, since timestamptz NOT NULL,
      token bigint NOT NULL, expires_at timestamptz NOT NULL
    ) WITH (fillfactor = 50)`,
  ],
  // Version 2. Several engines may share a schema: the head of a session names its newest commit. Each of these
  // engines has a lease of its own, so an engine that knows only version 1 must not open the schema.
  (schema) => [
    `CREATE TABLE ${schema}.heads (session_id bytea PRIMARY KEY, head text NOT NULL) WITH (fillfactor = 50)`,
  ],
  // Version 3. A lease has its duration, so that others know how long it can last if the clock goes back. A lease that
  // an engine of an earlier version took has none.
  (schema) => [`ALTER TABLE ${schema}.leases ADD COLUMN seconds integer`],
  // Version 4. Large contents may be objects of a bucket. An engine of an earlier version would take them for damaged. The
  // ids of objects have a table of their own, with those that are unused.
  (schema) => [
    `ALTER TABLE ${schema}.blobs ALTER COLUMN bytes DROP NOT NULL,
      ADD COLUMN object uuid, ADD COLUMN size integer,
      ADD CHECK ((bytes IS NULL) = (object IS NOT NULL AND size IS NOT NULL)) NOT VALID`,
    `CREATE TABLE ${schema}.objects (id uuid PRIMARY KEY, size integer NOT NULL, unused_since timestamptz)`,
    `CREATE TABLE ${schema}.buckets (name text PRIMARY KEY, location text NOT NULL, store text NOT NULL, database text)`,
  ],
  // Version 5. An engine may collect while others write: each of them stores the epoch of its lease in the rows
  // that it stores or uses again. An engine of an earlier version does not, so it must not have the schema open any more. It cannot
  // take a lease either, because it gives no epoch.
  (schema) => [
    `DELETE FROM ${schema}.leases WHERE starts_with(name, 'engine:')`,
    `UPDATE ${schema}.leases SET owner = NULL, token = token + 1`,
    `ALTER TABLE ${schema}.leases ADD COLUMN epoch bigint NOT NULL DEFAULT 0`,
    `ALTER TABLE ${schema}.leases ALTER COLUMN epoch DROP DEFAULT`,
    `ALTER TABLE ${schema}.nodes ADD COLUMN epoch bigint NOT NULL DEFAULT 0`,
    `ALTER TABLE ${schema}.blobs ADD COLUMN epoch bigint NOT NULL DEFAULT 0`,
    `CREATE TABLE ${schema}.collections (
      name text PRIMARY KEY, epoch bigint NOT NULL, stage text NOT NULL, owner uuid, token bigint NOT NULL
    )`,
    `INSERT INTO ${schema}.collections (name, epoch, stage, token) VALUES ('current', 1, 'none', 0)`,
    `CREATE TABLE ${schema}.pins (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner uuid NOT NULL, epoch bigint NOT NULL, body bytea NOT NULL
    )`,
  ],
]

/** From this version on, a store may be migrated only while no engine has it open. */
const exclusiveVersion = 5

/** The version of the tables that this code reads and writes. */
export const tableVersion: number = migrations.length

/** The tables with the data of a store. */
export const dataTables = [
  'records',
  'nodes',
  'events',
  'blobs',
  'heads',
  'objects',
  'buckets',
  'collections',
  'pins',
] as const

/**
 * Creates the schema and its tables, or brings those of an earlier version to this one. Concurrent openers
 * wait for each other, and each step is done once.
 *
 * @throws {EngineError} STORE_FORMAT when a later version wrote the store, or the schema has other tables.
 * @throws {EngineError} STORE_LOCKED when an engine of an earlier version has the store open.
 */
export async function migrate(client: PostgresClient, name: string): Promise<void> {
  const schema = quoted(name)
  if ((await versionOf(client, name)) === tableVersion) return
  await perform(client, 'BEGIN')
  try {
    await lockSchema(client, name)
    const before = await versionOf(client, name)
    if (before === 0) await create(client, name)
    else if (before < exclusiveVersion) await refuseOpen(client, schema, before)
    for (const [index, migration] of migrations.entries()) {
      if (index < before) continue
      await perform(client, migration(schema).join(';\n'))
      await perform(client, `INSERT INTO ${schema}.migrations (version) VALUES ($1)`, [index + 1])
    }
    await perform(client, 'COMMIT')
  } catch (error) {
    await perform(client, 'ROLLBACK').catch(ignore)
    throw error
  }
}

/** The version of the tables; 0 if there are none. */
async function versionOf(client: PostgresClient, name: string): Promise<number> {
  const found = await perform(
    client,
    `SELECT count(*) FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = 'migrations' AND a.attname IN ('version', 'applied_at')`,
    [name],
  )
  if (Number(found[0]?.[0]) < 2) return 0
  const [row] = await perform(client, `SELECT max(version) FROM ${quoted(name)}.migrations`)
  const version = Number(row?.[0] ?? 0)
  if (version > tableVersion)
    throw formatError(
      `a later version of forkspace wrote the store in schema ${quoted(name)}: its tables have version ${version}, ` +
        `and this one supports ${tableVersion}. Nothing was changed. Update forkspace`,
      { format: String(version), supported: String(tableVersion) },
    )
  return version
}

/** Engines take leases under the same lock, so none opens the store between this check and the migration. */
async function refuseOpen(client: PostgresClient, schema: string, version: number): Promise<void> {
  const [row] = await perform(
    client,
    `SELECT host, pid, greatest(0, ceil(extract(epoch FROM expires_at - clock_timestamp())))
      FROM ${schema}.leases
      WHERE owner IS NOT NULL AND expires_at > clock_timestamp() AND isfinite(expires_at) ORDER BY expires_at DESC LIMIT 1`,
  )
  if (row !== undefined) throw olderEngine(version, row)
}

/** Creates the schema with a table for its version. An existing schema must not have tables of these names. */
async function create(client: PostgresClient, name: string): Promise<void> {
  const schema = quoted(name)
  const taken = await perform(
    client,
    `SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = ANY($2) ORDER BY c.relname`,
    [name, ['migrations', 'leases', ...dataTables]],
  )
  if (['leases', 'migrations'].every((table) => taken.some((row) => row[0] === table)))
    throw emptiedStore(schema, 'migrations')
  if (taken.length > 0)
    throw formatError(
      `the schema ${schema} is no store: it has other tables, such as "${String(taken[0]?.[0])}". Nothing was changed. ` +
        'Choose a schema of its own for the store',
    )
  // CREATE SCHEMA IF NOT EXISTS needs a right on the database even if the schema exists.
  const exists = await perform(client, 'SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1', [name])
  if (exists.length === 0) await perform(client, `CREATE SCHEMA ${schema}`)
  await perform(
    client,
    `CREATE TABLE ${schema}.migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  )
}

function perform(
  client: PostgresClient,
  text: string,
  values: readonly unknown[] = [],
): ReturnType<typeof run> {
  return run(client, { text, values }, postgresLimits.commitMs)
}

/** A name as SQL. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Waits until no other opener uses the schema, and makes others wait for the end of this transaction. */
export async function lockSchema(client: PostgresClient, name: string): Promise<void> {
  // 64 bits of a hash.
  const lock = createHash('sha256').update(`forkspace schema ${name}`).digest().readBigInt64BE().toString()
  await perform(client, 'SELECT pg_advisory_xact_lock($1)', [lock])
}

function ignore(): void {}
