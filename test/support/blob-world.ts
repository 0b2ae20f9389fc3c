import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import { s3Blobs, type BlobBucket, type S3BlobsOptions } from '../../src/adapters/s3/index.js'
import type { Store } from '../../src/engine/ports.js'
import { freshSchema, sharedPostgres, type PostgresServer } from './postgres.js'
import { S3Server } from './s3-server.js'
import { temporaryDirectory } from './temporary-directory.js'

type Options = { [Name in keyof PostgresStorageOptions]?: PostgresStorageOptions[Name] | undefined }

/** Stores on PostgreSQL with their large contents in a bucket. Each test has a schema and a bucket of its own. */
export class BlobWorld {
  readonly postgres: PostgresServer
  readonly s3: S3Server
  readonly #directory: string
  readonly #stores = new Set<Store>()
  schema = ''
  bucket = ''

  private constructor(postgres: PostgresServer, s3: S3Server, directory: string) {
    this.postgres = postgres
    this.s3 = s3
    this.#directory = directory
  }

  static async start(): Promise<BlobWorld> {
    const directory = mkdtempSync(join(temporaryDirectory(), 's3-'))
    return new BlobWorld(await sharedPostgres(), await S3Server.start(directory), directory)
  }

  /** Call this before each test. */
  begin(): void {
    this.schema = freshSchema()
    this.bucket = `b-${this.schema}`
    this.s3.createBucket(this.bucket)
  }

  /** Call this after each test. */
  async end(): Promise<void> {
    for (const store of this.#stores) await store.close()
    this.#stores.clear()
  }

  async close(): Promise<void> {
    await this.s3.close()
    rmSync(this.#directory, { recursive: true })
  }

  /** The bucket, for contents of at least 1000 bytes. */
  blobs(options: Partial<S3BlobsOptions> = {}): BlobBucket {
    const settings = { client: this.s3.client(), bucket: this.bucket, prefix: 'app/', minBytes: 1000 }
    return s3Blobs({ ...settings, ...options })
  }

  settings(options: Options = {}): PostgresStorageOptions {
    const { connectionString } = this.postgres
    return {
      connectionString,
      schema: this.schema,
      blobs: this.blobs(),
      ...options,
    } as PostgresStorageOptions
  }

  async open(options: Options = {}): Promise<Store> {
    const store = await postgresStorage(this.settings(options)).open()
    this.#stores.add(store)
    return store
  }

  /** The keys of all objects, without the one that names the store. */
  objects(bucket = this.bucket): string[] {
    return this.s3.keys(bucket).filter((key) => key !== mark)
  }

  /** Runs SQL in the schema `$`. */
  rows(text: string): Promise<Record<string, unknown>[]> {
    return this.postgres.sql(text.replaceAll('$', this.schema))
  }

  /** Waits until a statement of the schema waits for a lock. */
  async waitingFor(pattern: string): Promise<void> {
    const text = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1 AND query LIKE $2`
    while ((await this.postgres.sql(text, [pattern, `%${this.schema}%`])).length === 0) await sleep(5)
  }
}

/** The object that names the store. */
export const mark = 'app/forkspace-store'

export const whole = { offset: 0, length: 2 ** 20 }

export function content(size: number, seed: number): { hash: string; bytes: Buffer } {
  const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 31 + seed * 7 + (i >> 8)) & 255))
  return { hash: createHash('sha256').update(bytes).digest('hex'), bytes }
}

export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}
