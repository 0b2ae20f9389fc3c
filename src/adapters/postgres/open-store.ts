import { EngineError, invalid } from '../../engine/ports.js'
import type { BlobBucket } from './blob-bucket.js'
import { BlobObjects } from './blob-objects.js'
import { claimBucket } from './bucket-claim.js'
import { Connections, run, type PostgresClient, type PostgresPool, type Statement } from './connections.js'
import { openError } from './errors.js'
import { Lease } from './lease.js'
import { postgresLimits } from './limits.js'
import { migrate, quoted } from './migrations.js'
import { checkPooler } from './pooler-check.js'
import { PostgresStore } from './postgres-store.js'

export interface OpenPostgresStoreOptions {
  readonly schema: string
  readonly durability: 'full' | 'relaxed'
  readonly leaseSeconds: number
  readonly shared: boolean
  readonly freshnessMillis: number
  readonly blobs: BlobBucket | undefined
}

/** Opens the store in a schema, or creates one there. `end` closes the pool, if this store made it. */
export async function openPostgresStore(
  pool: PostgresPool,
  end: () => Promise<void>,
  { schema, durability, leaseSeconds, shared: isShared, freshnessMillis, blobs }: OpenPostgresStoreOptions,
): Promise<PostgresStore> {
  const connections = new Connections(pool, setUpOf(durability), end)
  try {
    const lease = new Lease(connections, {
      name: schema,
      schema: quoted(schema),
      seconds: leaseSeconds,
      shared: isShared,
    })
    await connections.write(async (client) => {
      await checkServer(client, durability)
      await checkPooler(connections, client)
      await migrate(client, schema)
      // Requests to a bucket may take longer than a lease lasts without renewals.
      const noteBucket = await claimBucket(client, quoted(schema), blobs)
      await lease.take(client)
      await noteBucket()
    })
    const shared = isShared ? { freshnessMs: freshnessMillis } : undefined
    const objects = blobs && new BlobObjects(blobs, connections, quoted(schema))
    return new PostgresStore({
      connections,
      lease,
      schema: quoted(schema),
      durability,
      shared,
      joined: lease.joined,
      objects,
    })
  } catch (error) {
    await connections.close().catch(ignore)
    throw openError(error)
  }
}

/**
 * The settings of a connection for commits. The statements of commits are planned once, and must use the
 * indexes whatever the size of a table was at that time. With `full`, a commit waits for the log on the disk,
 * even if the server, the database or the role has `synchronous_commit = off`.
 */
function setUpOf(durability: 'full' | 'relaxed'): Statement {
  const settings: Readonly<Record<string, string>> = {
    default_transaction_isolation: 'read committed',
    default_transaction_read_only: 'off',
    statement_timeout: String(postgresLimits.commitMs),
    lock_timeout: String(postgresLimits.lockMs),
    idle_in_transaction_session_timeout: String(postgresLimits.idleInTransactionMs),
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    enable_hashjoin: 'off',
    enable_mergejoin: 'off',
    jit: 'off',
  }
  const commit =
    durability === 'relaxed'
      ? `'off'`
      : `CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END`
  const calls = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', false)`)
  return { text: `SELECT ${calls.join(', ')}, set_config('synchronous_commit', ${commit}, false)` }
}

async function checkServer(client: PostgresClient, durability: 'full' | 'relaxed'): Promise<void> {
  const text = `SELECT current_setting('server_version_num'), current_setting('fsync'), pg_is_in_recovery()`
  const [row] = await run(client, { text }, postgresLimits.readMs)
  const [version, fsync, isStandby] = row ?? []
  if (Number(version) < postgresLimits.serverVersionMin)
    throw new EngineError(
      'STORE_FAILED',
      `the server has the version ${Math.floor(Number(version) / 10_000)} of PostgreSQL; this store needs 12 or newer`,
    )
  if (isStandby === 't')
    throw new EngineError(
      'STORE_FAILED',
      'the server is a standby, which cannot be written. Connect to the primary server',
    )
  if (fsync !== 'on' && durability === 'full')
    throw invalid(
      'durability',
      "the server has fsync = off, so a power cut can destroy the database. Turn fsync on, or pass durability: 'relaxed'",
    )
}

function ignore(): void {}
