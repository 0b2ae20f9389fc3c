import { createHash } from 'node:crypto'
import {
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { EngineError } from '../../engine/ports.js'
import type { BlobBucket, ListedObject } from '../postgres/blob-bucket.js'
import { isMismatch, isMissing, isTaken, PartialFailure, requestError } from './errors.js'
import { s3Limits } from './limits.js'

export interface S3BucketParts {
  readonly client: S3Client
  readonly bucket: string
  readonly prefix: string
  readonly minBytes: number
}

/** Objects in a bucket whose keys start with a prefix. The client repeats failed requests as it is set to. */
export class S3Bucket implements BlobBucket {
  readonly location: string
  readonly minBytes: number
  readonly #client: S3Client
  readonly #bucket: string
  readonly #prefix: string

  constructor({ client, bucket, prefix, minBytes }: S3BucketParts) {
    this.location = `s3://${bucket}/${prefix}`
    this.minBytes = minBytes
    this.#client = client
    this.#bucket = bucket
    this.#prefix = prefix
  }

  async put(key: string, bytes: Uint8Array): Promise<boolean> {
    const command = new PutObjectCommand({
      Bucket: this.#bucket,
      Key: this.#prefix + key,
      Body: bytes,
      IfNoneMatch: '*',
      // S3 stores nothing if the bytes arrive damaged.
      ChecksumSHA256: createHash('sha256').update(bytes).digest('base64'),
    })
    try {
      await this.#client.send(command, { abortSignal: deadline() })
      return true
    } catch (error) {
      if (isTaken(error)) return false
      throw requestError(error, 'the store could not be written', { outcome: 'not-applied' })
    }
  }

  async get(key: string, maxBytes: number): Promise<Uint8Array | undefined> {
    const abortSignal = deadline()
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#get(key, maxBytes, abortSignal)
      } catch (error) {
        const isBroken = error instanceof BrokenBody
        const cause: unknown = isBroken ? error.cause : error
        if (isMissing(cause)) return undefined
        if (isBroken && attempt < s3Limits.readAttempts && !abortSignal.aborted) continue
        if (isMismatch(cause)) throw damagedObject(cause)
        throw requestError(cause, 'the store could not be read')
      }
    }
  }

  async #get(key: string, maxBytes: number, abortSignal: AbortSignal): Promise<Uint8Array> {
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: this.#prefix + key })
    const { Body } = await this.#client.send(command, { abortSignal })
    const chunks: Uint8Array[] = []
    let count = 0
    try {
      for await (const chunk of (Body ?? []) as AsyncIterable<Uint8Array>) {
        count += chunk.byteLength
        if (count > maxBytes) throw damagedObject()
        chunks.push(chunk)
      }
    } catch (cause) {
      if (cause instanceof EngineError) throw cause
      throw new BrokenBody('an answer broke off', { cause })
    }
    return Buffer.concat(chunks, count)
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (let i = 0; i < keys.length; i += s3Limits.deletedAtOnce) {
      const objects = keys.slice(i, i + s3Limits.deletedAtOnce).map((key) => ({ Key: this.#prefix + key }))
      const command = new DeleteObjectsCommand({
        Bucket: this.#bucket,
        Delete: { Objects: objects, Quiet: true },
      })
      const what = 'unused contents could not be deleted'
      try {
        const { Errors = [] } = await this.#client.send(command, { abortSignal: deadline() })
        const [first] = Errors
        if (first !== undefined) throw new PartialFailure(String(first.Code), String(first.Message))
      } catch (error) {
        throw requestError(error, what)
      }
    }
  }

  async *list(): AsyncGenerator<readonly ListedObject[], void, undefined> {
    for (let token: string | undefined, isFirst = true; isFirst || token !== undefined; isFirst = false) {
      const command = new ListObjectsV2Command({
        Bucket: this.#bucket,
        Prefix: this.#prefix,
        ContinuationToken: token,
      })
      let page
      try {
        page = await this.#client.send(command, { abortSignal: deadline() })
      } catch (error) {
        throw requestError(error, 'the store could not be read')
      }
      yield (page.Contents ?? []).flatMap(({ Key, LastModified }) =>
        Key?.startsWith(this.#prefix) === true && LastModified !== undefined
          ? [{ key: Key.slice(this.#prefix.length), storedAtMs: LastModified.getTime() }]
          : [],
      )
      token = page.NextContinuationToken
    }
  }
}

/** The failure of an answer after its begin. The client does not repeat such a request. */
class BrokenBody extends Error {}

function deadline(): AbortSignal {
  return AbortSignal.timeout(s3Limits.requestMs)
}

function damagedObject(cause?: unknown): EngineError {
  return new EngineError(
    'DATA_LOSS',
    'a stored content is damaged: the object in S3 is not the one that was stored. Restore it from a backup of the bucket',
    {},
    { cause },
  )
}
