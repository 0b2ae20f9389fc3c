import { run, type PostgresClient } from './connections.js'
import { movedError } from './errors.js'
import { postgresLimits } from './limits.js'
import { dataTables, quoted } from './migrations.js'

/**
 * The numbers of the files with the tables of a store, as SQL. TRUNCATE gives a table another file, and so does a
 * statement that replaces the table. A rewrite such as VACUUM FULL does it too, although it keeps the rows.
 */
export function filesOf(name: string): string {
  const files = ['leases', ...dataTables].map(
    (table) => `pg_relation_filenode(to_regclass(${literal(`${quoted(name)}.${table}`)}))`,
  )
  return `concat_ws(',', ${files.join(', ')})`
}

/** The tables that an engine has open. */
export interface OpenTables {
  /** Identifies the table of leases, also after a rewrite. */
  readonly leases: string
  /** See {@link filesOf}. */
  readonly files: string
}

/**
 * Reads which tables the schema has.
 *
 * @throws {EngineError} STORE_MOVED when it has none, or others than `opened`.
 */
export async function readTables(
  client: PostgresClient,
  name: string,
  opened: OpenTables | undefined,
): Promise<OpenTables> {
  const [row] = await run(
    client,
    { text: `SELECT to_regclass($1)::oid, ${filesOf(name)}`, values: [`${quoted(name)}.leases`] },
    postgresLimits.readMs,
  )
  const [leases, files] = row ?? []
  if (typeof leases !== 'string' || typeof files !== 'string') throw movedError()
  if (opened !== undefined && leases !== opened.leases) throw movedError()
  return { leases, files }
}

/** The first of some tables that has no row, although it has one in each store. */
export async function emptiedTable(
  client: PostgresClient,
  name: string,
  tables: readonly string[],
): Promise<string | undefined> {
  const cases = tables.map(
    (table) => `WHEN NOT EXISTS (SELECT FROM ${quoted(name)}.${table}) THEN '${table}'`,
  )
  const [row] = await run(client, { text: `SELECT CASE ${cases.join(' ')} END` }, postgresLimits.readMs)
  return row?.[0] ?? undefined
}

/** A string literal of SQL, for both values of the setting `standard_conforming_strings`. */
function literal(value: string): string {
  return `E'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
}
