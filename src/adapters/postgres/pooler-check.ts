import { run, type Connections, type PostgresClient } from './connections.js'
import { crowdedPooler, isTimeout, transactionPooler } from './errors.js'
import { postgresLimits } from './limits.js'

/**
 * Refuses a pooler that gives each transaction another connection of the server, such as PgBouncer in transaction mode:
 * settings and prepared statements would get lost. Another client has a transaction open meanwhile. In session mode, this
 * makes no difference for `client`.
 *
 * @throws {EngineError} STORE_FAILED
 */
export async function checkPooler(connections: Connections, client: PostgresClient): Promise<void> {
  const before = await backendOf(client)
  // A pooler has numbers of its own for its clients.
  if (Reflect.get(client, 'processID') === Number(before)) return
  for (let attempt = 1; attempt <= postgresLimits.poolerChecks; attempt++) {
    const isSame = await connections.aside(async (other) => {
      try {
        await run(other, { text: 'BEGIN' }, postgresLimits.connectMs)
      } catch (error) {
        throw isTimeout(error) ? crowdedPooler(error) : error
      }
      try {
        return (await backendOf(other)) !== before && (await backendOf(client)) === before
      } finally {
        await run(other, { text: 'ROLLBACK' }, postgresLimits.connectMs)
      }
    })
    if (!isSame) throw transactionPooler()
  }
}

/** The number of the process of the server that runs a statement. */
async function backendOf(client: PostgresClient): Promise<string | undefined> {
  const [row] = await run(client, { text: 'SELECT pg_backend_pid()' }, postgresLimits.connectMs)
  return row?.[0] ?? undefined
}
