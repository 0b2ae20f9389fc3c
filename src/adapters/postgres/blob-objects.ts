import { createHash, randomUUID } from 'node:crypto'
import { Semaphore } from 'async-mutex'
import { present, type ByteRange } from '../../engine/ports.js'
import { byteaArray, uuidArray } from './arrays.js'
import type { BlobBucket, ListedObject } from './blob-bucket.js'
import { isSent, KnownContent, StoredObject, type CommitSet } from './commit-set.js'
import { hashBytes } from './commit-statement.js'
import { run, type Connections, type Row } from './connections.js'
import { collidingObject, damagedBlob, writeError } from './errors.js'
import { postgresLimits } from './limits.js'

/** `<hash>-<id>`. The hash comes first, because S3 spreads its load by the beginnings of keys. */
const keyForm = /^([0-9a-f]{64})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

interface KnownObject {
  readonly key: string
  readonly hash: string
  readonly id: string
}

/**
 * The large contents of a store, which are objects of a bucket. Each object has a random id. The table `objects` has each id
 * at most once. Either a commit inserts it, with a row of `blobs` that refers to it, or a sweep does. After the sweep, a
 * commit cannot insert it any more. So no commit uses an object again that has no row of `blobs`. No clock decides this.
 */
export class BlobObjects {
  readonly #bucket: BlobBucket
  readonly #connections: Connections
  readonly #schema: string
  readonly #requests = new Semaphore(postgresLimits.objectRequests)
  /** Objects that no commit has stored yet, by the hashes of their contents. */
  readonly #uploaded = new Map<string, StoredObject>()
  /** Contents that were read lately or are being read, by the keys of their objects. The newest are last. */
  readonly #read = new Map<
    string,
    { readonly bytes: Promise<Uint8Array | undefined>; readonly size: number }
  >()
  #readBytes = 0

  /** `schema` is quoted. */
  constructor(bucket: BlobBucket, connections: Connections, schema: string) {
    this.#bucket = bucket
    this.#connections = connections
    this.#schema = schema
  }

  /**
   * Stores the large contents of a set. When this resolves, they are durable, and the set refers to them. A content that the
   * store has is not stored again: different sessions often write the same contents.
   */
  async upload(set: CommitSet): Promise<void> {
    const large = new Map<string, Uint8Array>()
    for (const [hash, content] of set.blobs)
      if (isSent(content) && content.byteLength >= this.#bucket.minBytes) large.set(hash, content)
    for (const hash of await this.#known([...large.keys()])) {
      set.replaceBlob(hash, new KnownContent(present(large.get(hash), 'a known content')))
      large.delete(hash)
    }
    await this.#uploadAll(set, large)
  }

  /** Stores those contents of a set that the store no longer has after all. */
  async uploadDropped(set: CommitSet): Promise<void> {
    const large = new Map<string, Uint8Array>()
    for (const [hash, content] of set.blobs)
      if (content instanceof KnownContent) large.set(hash, content.bytes)
    await this.#uploadAll(set, large)
  }

  async #known(hashes: readonly string[]): Promise<readonly string[]> {
    if (hashes.length === 0) return []
    const text = `SELECT encode(hash, 'hex') FROM ${this.#schema}.blobs WHERE hash = ANY($1::bytea[])`
    try {
      const rows = await this.#connections.read({ text, values: [byteaArray(hashes.map(hashBytes))] })
      return rows.map(([hash]) => String(hash))
    } catch (error) {
      throw writeError(error, 'not-applied')
    }
  }

  async #uploadAll(set: CommitSet, contents: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const uploads = [...contents].map(async ([hash, bytes]) =>
      set.replaceBlob(hash, await this.#upload(hash, bytes)),
    )
    // Also after a failure, all uploads end before this call does.
    for (const result of await Promise.allSettled(uploads))
      if (result.status === 'rejected') throw result.reason
  }

  /** Notes that the objects of a set are in use. After a commit of unknown outcome, they may be. */
  settle(set: CommitSet): void {
    for (const [hash, content] of set.blobs) if (content instanceof StoredObject) this.#uploaded.delete(hash)
  }

  async #upload(hash: string, bytes: Uint8Array): Promise<StoredObject> {
    const known = this.#uploaded.get(hash)
    if (known !== undefined) return known
    const object = await this.#requests.runExclusive(() => this.#put(hash, bytes))
    // The commits of these objects have been overtaken. A sweep deletes them.
    if (this.#uploaded.size >= postgresLimits.objectsKept) this.#uploaded.clear()
    this.#uploaded.set(hash, object)
    return object
  }

  async #put(hash: string, bytes: Uint8Array): Promise<StoredObject> {
    const id = randomUUID()
    const key = keyOf(hash, id)
    if (!(await this.#bucket.put(key, bytes))) {
      // The answer to an earlier try was lost.
      const stored = await this.#bucket.get(key, bytes.byteLength)
      if (stored === undefined || Buffer.compare(stored, bytes) !== 0) throw collidingObject()
    }
    return new StoredObject(id, bytes.byteLength)
  }

  /**
   * A range of the content of an object. Undefined if there is no such object. Reads of parts share a request: an engine
   * reads a part of a large content at a time, and only the whole object can be verified.
   *
   * @throws {EngineError} DATA_LOSS when the bytes of the object are wrong.
   */
  async read(
    hash: string,
    object: StoredObject,
    { offset, length }: ByteRange,
  ): Promise<Uint8Array | undefined> {
    // A whole content is read from the bucket each time: a check needs that, and the engine caches whole contents itself.
    if (offset === 0 && length >= object.size) return this.#request(hash, object)
    const bytes = await this.#shared(hash, object)
    // A part must not keep the whole content in memory.
    return bytes && Buffer.from(bytes.subarray(offset, offset + length))
  }

  #shared(hash: string, object: StoredObject): Promise<Uint8Array | undefined> {
    const key = keyOf(hash, object.id)
    const known = this.#read.get(key)
    if (known !== undefined) {
      this.#read.delete(key)
      this.#read.set(key, known)
      return known.bytes
    }
    const bytes = this.#request(hash, object)
    this.#read.set(key, { bytes, size: object.size })
    this.#readBytes += object.size
    for (const oldest of this.#read.keys()) {
      if (this.#readBytes <= postgresLimits.objectCacheBytes || oldest === key) break
      this.#forget(oldest)
    }
    bytes.then(
      (found) => found ?? this.#forget(key),
      () => this.#forget(key),
    )
    return bytes
  }

  async #request(hash: string, { id, size }: StoredObject): Promise<Uint8Array | undefined> {
    const bytes = await this.#requests.runExclusive(() => this.#bucket.get(keyOf(hash, id), size))
    if (bytes !== undefined && createHash('sha256').update(bytes).digest('hex') !== hash)
      throw damagedBlob(hash)
    return bytes
  }

  #forget(key: string): void {
    const known = this.#read.get(key)
    if (known === undefined) return
    this.#read.delete(key)
    this.#readBytes -= known.size
  }

  /**
   * Deletes objects that no row refers to, after a time in which an operator may still go back to an earlier state of the
   * database, and a standby that lacks the newest commits may become the server.
   */
  async sweep(signal: AbortSignal | undefined): Promise<void> {
    const before = Date.now() - postgresLimits.unusedObjectMs
    for await (const page of this.#bucket.list()) {
      signal?.throwIfAborted()
      await this.#sweep(page.filter(({ storedAtMs }) => storedAtMs < before).flatMap(parseKey))
    }
  }

  async #sweep(objects: readonly KnownObject[]): Promise<void> {
    const candidates = await this.#unused(objects)
    if (candidates.length === 0) return
    const ids = uuidArray(candidates.map(({ id }) => id))
    // From now on, no commit can refer to the objects. One that does so now makes this statement wait.
    await this.#change(
      `INSERT INTO ${this.#schema}.objects (id, size, unused_since)
        SELECT id, 0, clock_timestamp() FROM unnest($1::uuid[]) AS id ORDER BY id ON CONFLICT (id) DO NOTHING`,
      [ids],
    )
    const unused = await this.#unused(candidates)
    const unusedIds = uuidArray(unused.map(({ id }) => id))
    await this.#change(
      `UPDATE ${this.#schema}.objects SET unused_since = clock_timestamp()
        WHERE id = ANY($1::uuid[]) AND unused_since IS NULL`,
      [unusedIds],
    )
    // The ids of objects that never were in use stay, because their commit may still be under way.
    const isOver = `unused_since < clock_timestamp() - make_interval(secs => ${postgresLimits.unusedObjectMs / 1000})`
    const rows = await this.#change(
      `WITH forgotten AS (
        DELETE FROM ${this.#schema}.objects WHERE id = ANY($1::uuid[]) AND ${isOver} AND size > 0 RETURNING id)
        SELECT id FROM forgotten
        UNION ALL SELECT id FROM ${this.#schema}.objects WHERE id = ANY($1::uuid[]) AND ${isOver} AND size = 0`,
      [unusedIds],
    )
    const ended = new Set(rows.map(([id]) => id))
    const keys = unused.filter(({ id }) => ended.has(id)).map(({ key }) => key)
    if (keys.length > 0) await this.#bucket.delete(keys)
  }

  /** The objects to which no row refers. */
  async #unused(objects: readonly KnownObject[]): Promise<KnownObject[]> {
    if (objects.length === 0) return []
    const text = `SELECT o.id FROM unnest($1::text[], $2::uuid[]) AS o(hash, id)
        WHERE NOT EXISTS (
          SELECT FROM ${this.#schema}.blobs b WHERE b.hash = decode(o.hash, 'hex') AND b.object = o.id)`
    const values = [objects.map(({ hash }) => hash), uuidArray(objects.map(({ id }) => id))]
    const rows = await this.#connections.read({ text, values })
    const ids = new Set(rows.map(([id]) => id))
    return objects.filter(({ id }) => ids.has(id))
  }

  #change(text: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#connections.write((client) => run(client, { text, values }, postgresLimits.commitMs))
  }
}

function keyOf(hash: string, id: string): string {
  return `${hash}-${id}`
}

function parseKey({ key }: ListedObject): KnownObject[] {
  const [, hash, id] = keyForm.exec(key) ?? []
  return hash === undefined || id === undefined ? [] : [{ key, hash, id }]
}
