import type { BlobBucket } from './blob-bucket.js'
import { run, type PostgresClient, type Row } from './connections.js'
import { copiedError, foreignBucket, noBlobsError, otherBucket, unmarkedBucket } from './errors.js'
import { postgresLimits } from './limits.js'

/** The object that names the store. */
const markKey = 'forkspace-store'

/**
 * Checks that a bucket is the one with the contents of the store, or may become it. The object `forkspace-store` in the
 * bucket names the store, so that two stores never use the same keys, and no store mistakes another bucket for its own. The
 * database is compared too, because a store that was restored from a backup elsewhere has the same name.
 *
 * Returns a function that notes the bucket in the store, for the time when this engine may write. `schema` is quoted.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the contents of the store are in another bucket
 * @throws {EngineError} STORE_FORMAT when another store uses the bucket
 */
export async function claimBucket(
  client: PostgresClient,
  schema: string,
  bucket: BlobBucket | undefined,
): Promise<() => Promise<void>> {
  const perform = (text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    run(client, { text, values }, postgresLimits.readMs)
  const noted = (): Promise<Row[]> => perform(`SELECT location, store, database FROM ${schema}.buckets`)
  const [row] = await noted()
  if (bucket === undefined) {
    if (row !== undefined) throw noBlobsError(row[0])
    return () => Promise.resolve()
  }
  const check = ([location, store, from]: Row): void => {
    if (location !== bucket.location) throw otherBucket(bucket.location, location)
    if (from !== null && from !== database) throw copiedError(bucket.location, schema)
    if (store !== name) throw foreignBucket(bucket.location)
  }
  const [identity] = await perform(
    `SELECT system_identifier || '/' || oid FROM pg_control_system(), pg_database WHERE datname = current_database()`,
  )
  const database = `${identity?.[0]}/${schema}`
  // The first name is that of the place, so that an opener which did not get further leaves nothing to clean up.
  const name = row?.[1] ?? database
  if (row !== undefined) check(row)
  await checkMark(bucket, name, async () => {
    const [used] = await perform(`SELECT EXISTS (SELECT FROM ${schema}.objects)`)
    return used?.[0] === 't'
  })
  return async () => {
    await perform(
      `INSERT INTO ${schema}.buckets (name, location, store, database) VALUES ('blobs', $1, $2, $3)
        ON CONFLICT (name) DO UPDATE SET database = excluded.database WHERE buckets.database IS NULL`,
      [bucket.location, name, database],
    )
    // Another engine may have been first.
    for (const now of await noted()) check(now)
  }
}

async function checkMark(bucket: BlobBucket, name: string, isUsed: () => Promise<boolean>): Promise<void> {
  let mark = await bucket.get(markKey, postgresLimits.bucketMarkBytes)
  if (mark === undefined) {
    if (await isUsed()) throw unmarkedBucket(bucket.location, markKey)
    await bucket.put(markKey, Buffer.from(name))
    // Another store may have been first.
    mark = await bucket.get(markKey, postgresLimits.bucketMarkBytes)
  }
  if (mark === undefined || Buffer.from(mark).toString() !== name) throw foreignBucket(bucket.location)
}
