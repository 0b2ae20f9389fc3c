import { postgresStorage } from '../../src/adapters/postgres/index.js'
import type { Storage } from '../../src/index.js'
import { blobsOf } from './killed-bucket.js'
import type { SharedWriterArguments } from './shared-protocol.js'

/** The storage that several processes share. */
export function sharedStorage({
  postgres,
  bucket,
}: Pick<SharedWriterArguments, 'postgres' | 'bucket'>): Storage {
  return postgresStorage({ ...postgres, shared: true, ...(bucket && { blobs: blobsOf(bucket) }) })
}
