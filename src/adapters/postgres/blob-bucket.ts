/**
 * A place for large contents outside of the database, such as a bucket of S3. The store gives each object a key of its own
 * that it never uses again, so no object is ever replaced.
 *
 * Errors are EngineErrors. A call has a bound for its time, and repeats requests that failed for a moment.
 */
export interface BlobBucket {
  /** The place in errors, and in the store, which refuses another one later: `s3://bucket/prefix`. */
  readonly location: string
  /** Contents of at least this many bytes become objects. */
  readonly minBytes: number
  /**
   * Stores an object, which is durable when the promise resolves. False if there is one with this key, which stays as it
   * is: an earlier request may have succeeded although its answer was lost.
   */
  put(key: string, bytes: Uint8Array): Promise<boolean>
  /** The bytes of an object, or undefined if there is none. With more than `maxBytes` bytes, the object counts as damaged. */
  get(key: string, maxBytes: number): Promise<Uint8Array | undefined>
  /** Deletes objects, if they exist. */
  delete(keys: readonly string[]): Promise<void>
  /** All objects, in pages. */
  list(): AsyncIterable<readonly ListedObject[]>
}

/** An object of a {@link BlobBucket}. */
export interface ListedObject {
  /** The key, without the prefix of the bucket. */
  readonly key: string
  /** When the object was stored, in milliseconds since 1970. */
  readonly storedAtMs: number
}
