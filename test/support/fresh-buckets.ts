import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { s3Blobs, type BlobBucket } from '../../src/adapters/s3/index.js'
import { S3Server } from './s3-server.js'
import { temporaryDirectory } from './temporary-directory.js'

/** A server of S3 with a new bucket for each store. */
export class FreshBuckets {
  readonly server: S3Server
  readonly #directory: string
  #count = 0

  private constructor(server: S3Server, directory: string) {
    this.server = server
    this.#directory = directory
  }

  static async start(): Promise<FreshBuckets> {
    const directory = mkdtempSync(join(temporaryDirectory(), 's3-'))
    return new FreshBuckets(await S3Server.start(directory), directory)
  }

  /** A bucket that no other store uses, for contents from 100 bytes on. */
  blobs(): BlobBucket {
    const bucket = `b${++this.#count}`
    this.server.createBucket(bucket)
    return s3Blobs({ client: this.server.client(), bucket, minBytes: 100 })
  }

  async close(): Promise<void> {
    await this.server.close()
    rmSync(this.#directory, { recursive: true })
  }
}
