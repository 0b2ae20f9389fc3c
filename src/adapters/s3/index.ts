/**
 * Large contents of a store in a bucket of S3, or of a service with its interface.
 *
 * @module
 */
import type { S3Client } from '@aws-sdk/client-s3'
import { given, invalid, Shape } from '../../engine/ports.js'
import type { BlobBucket } from '../postgres/blob-bucket.js'
import { s3Limits } from './limits.js'
import { S3Bucket } from './s3-bucket.js'

export type { BlobBucket, ListedObject } from '../postgres/blob-bucket.js'

/** Options of {@link s3Blobs}. */
export interface S3BlobsOptions {
  /**
   * An `S3Client` of `@aws-sdk/client-s3`, with the region, the endpoint and the credentials. It repeats failed requests as
   * it is set to, 3 times in all by default. The engine never closes it.
   */
  readonly client: S3Client
  /** The name of the bucket, which exists. */
  readonly bucket: string
  /**
   * The beginning of the keys of all objects, such as `app/`, '' by default. Only one store can use it. Keep other objects
   * out of it.
   */
  readonly prefix?: string
  /** Contents of at least this many bytes become objects, 65,536 by default, at most 1,048,576. */
  readonly minBytes?: number
}

const optionsShape = new Shape<S3BlobsOptions>({ client: true, bucket: true, prefix: true, minBytes: true })

/**
 * Large contents in a bucket, for the option `blobs` of `postgresStorage`. It needs the package `@aws-sdk/client-s3`.
 * This call itself sends no request.
 *
 * The rights that it needs: `s3:GetObject`, `s3:PutObject`, `s3:DeleteObject` and `s3:ListBucket`. The service must support
 * conditional writes, `If-None-Match`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option has the wrong form
 *
 * @example
 * import { S3Client } from '@aws-sdk/client-s3'
 * import { postgresStorage } from 'forkspace/postgres'
 * import { s3Blobs } from 'forkspace/s3'
 *
 * const client = new S3Client({ region: 'eu-central-1' })
 * const storage = postgresStorage({
 *   connectionString: 'postgres://app@localhost/app',
 *   blobs: s3Blobs({ client, bucket: 'app-contents', prefix: 'forkspace/' }),
 * })
 */
export function s3Blobs(options: S3BlobsOptions): BlobBucket {
  const {
    client,
    bucket,
    prefix = '',
    minBytes = s3Limits.objectBytes,
  } = optionsShape.read(options, 'options')
  if (typeof client !== 'object' || client === null || typeof Reflect.get(client, 'send') !== 'function')
    throw invalid('client', 'must be an S3Client of @aws-sdk/client-s3')
  if (typeof bucket !== 'string' || !/^[^\s/]+$/.test(bucket))
    throw invalid('bucket', `must be the name of a bucket; it is ${given(bucket)}`)
  if (typeof prefix !== 'string' || prefix.includes('\0') || !prefix.isWellFormed())
    throw invalid('prefix', `must be the beginning of keys; it is ${given(prefix)}`)
  if (Buffer.byteLength(prefix) > s3Limits.prefixBytes)
    throw invalid('prefix', `must have at most ${s3Limits.prefixBytes} bytes; it is ${given(prefix)}`)
  if (!Number.isInteger(minBytes) || minBytes < 1 || minBytes > s3Limits.objectBytesMax)
    throw invalid(
      'minBytes',
      `must be an integer from 1 to ${s3Limits.objectBytesMax}; it is ${given(minBytes)}`,
    )
  return new S3Bucket({ client, bucket, prefix, minBytes })
}
