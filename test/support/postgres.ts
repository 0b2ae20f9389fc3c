import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import type { Storage } from '../../src/index.js'
import { PostgresServer } from './postgres-server.js'

export { hasPostgres, PostgresServer } from './postgres-server.js'

let shared: Promise<PostgresServer> | undefined
let schemas = 0

/** The server of all tests of this process. */
export function sharedPostgres(): Promise<PostgresServer> {
  shared ??= PostgresServer.start()
  return shared
}

/** The name of a schema that no other test uses. */
export function freshSchema(): string {
  return `s${++schemas}`
}

/** Storage in a schema of its own on the shared server, which removes all schemas when the tests end. */
export async function freshPostgres(
  options: Partial<PostgresStorageOptions> = {},
): Promise<{ storage: Storage; schema: string }> {
  const server = await sharedPostgres()
  const schema = freshSchema()
  return {
    storage: postgresStorage({ connectionString: server.connectionString, schema, ...options }),
    schema,
  }
}
