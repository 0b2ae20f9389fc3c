import { Buffer } from 'node:buffer'
import { onlyItem } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { decodeBlob, type BlobRef, type EncodedBlob } from '../../cas/blob.js'
import type { ContentWriter } from '../../cas/content-writer.js'
import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import type { GitObject, GitObjects } from './git-ports.js'
import type { OpenGitObject } from './repository-ports.js'
import { gitObjectKind, type GitObjectRecord } from '../../records/git-object.js'

interface StoredObject {
  readonly type: GitObject['type']
  readonly blobs: readonly BlobRef[]
  /** The body of a commit, tree or tag that was added a moment ago. */
  body?: Uint8Array
}

/**
 * The git objects of a tenant, and the objects that one import or commit adds. On a durable store, an object
 * is a record with the hashes of its blobs. Otherwise, objects are kept in memory, and new ones become
 * visible to others with `flush`.
 */
export class GitObjectStore implements GitObjects {
  readonly #core: Core
  readonly #writer: ContentWriter
  readonly #added = new Map<string, StoredObject>()
  readonly #inMemory: Map<string, StoredObject> | undefined
  #bodyBytes = 0

  /** `inMemory`: set if the store keeps no objects. */
  constructor(core: Core, writer: ContentWriter, inMemory: MemoryGitObjects | undefined) {
    this.#core = core
    this.#writer = writer
    this.#inMemory = inMemory?.of(core.tenantKey)
  }

  async get(oid: string, maxBytes = Number.POSITIVE_INFINITY): Promise<GitObject | undefined> {
    const object = this.#known(oid) ?? (await this.#find(oid))
    if (object === undefined || sizeOf(object) > maxBytes) return undefined
    const { type } = object
    return { oid, type, body: object.body ?? (await this.#read(oid, object.blobs)) }
  }

  /** An object that is read in pieces. Undefined if it is unknown. */
  async open(oid: string): Promise<OpenGitObject | undefined> {
    const object = this.#known(oid) ?? (await this.#find(oid))
    if (object === undefined) return undefined
    const { type, body, blobs } = object
    const pieces = (): AsyncGenerator<Uint8Array, void> =>
      body === undefined
        ? this.#pieces(oid, blobs)
        : (async function* () {
            yield body
          })()
    return { type, size: sizeOf(object), pieces }
  }

  async has(oid: string): Promise<boolean> {
    return (this.#known(oid) ?? (await this.#find(oid))) !== undefined
  }

  add({ oid, type, body }: GitObject): void | Promise<void> {
    if (this.#known(oid) !== undefined) return undefined
    const object: StoredObject = { type, blobs: this.#writer.take(body) }
    if (type !== 'blob' && this.#inMemory === undefined && this.#bodyBytes < limits.gitObjectBytes) {
      this.#bodyBytes += body.byteLength
      object.body = body
    }
    this.#keep(oid, object, body.byteLength)
    return this.#writer.backpressure()
  }

  async addBlob(chunks: AsyncIterable<Uint8Array>, oid: () => string): Promise<void> {
    const { blobs, size } = await this.#writer.takePieces(chunks)
    this.#keep(oid(), { type: 'blob', blobs }, size)
    await this.#writer.backpressure()
  }

  async flush(): Promise<void> {
    await this.#writer.flush()
    if (this.#inMemory !== undefined) for (const [oid, object] of this.#added) this.#inMemory.set(oid, object)
  }

  /**
   * The stored blobs of a git blob. They are returned synchronously for a blob that was just added.
   *
   * @throws {EngineError} GIT_CORRUPT when the repository did not send the blob, or the object is not a blob
   */
  contentOf(oid: string): readonly BlobRef[] | Promise<readonly BlobRef[]> {
    const known = this.#known(oid)
    return known === undefined ? this.#mustFind(oid) : blobsOf(oid, known)
  }

  async #mustFind(oid: string): Promise<readonly BlobRef[]> {
    const object = await this.#find(oid)
    if (object === undefined)
      throw new EngineError('GIT_CORRUPT', `the repository refers to the blob ${oid}, but did not send it`)
    return blobsOf(oid, object)
  }

  #known(oid: string): StoredObject | undefined {
    return this.#added.get(oid) ?? this.#inMemory?.get(oid)
  }

  #keep(oid: string, object: StoredObject, size: number): void {
    this.#added.set(oid, object)
    if (this.#inMemory !== undefined) return
    const { type, blobs } = object
    const only = onlyItem(blobs)
    const record: GitObjectRecord =
      only === undefined ? { type, size, blobs: blobs.map(encode) } : { type, size, hash: only.hash }
    this.#writer.record(keys.gitObject(this.#core.tenantKey, oid), record)
  }

  async #find(oid: string): Promise<StoredObject | undefined> {
    if (this.#inMemory !== undefined) return undefined
    const json = await this.#core.store.get(keys.gitObject(this.#core.tenantKey, oid))
    if (json === undefined) return undefined
    const record = gitObjectKind.parse(json)
    const encoded = 'hash' in record ? [[record.hash, record.size] as const] : record.blobs
    return { type: record.type, blobs: encoded.map(decodeBlob) }
  }

  async #read(oid: string, blobs: readonly BlobRef[]): Promise<Uint8Array> {
    const parts: Uint8Array[] = []
    for await (const part of this.#pieces(oid, blobs)) parts.push(part)
    return onlyItem(parts) ?? Buffer.concat(parts)
  }

  async *#pieces(oid: string, blobs: readonly BlobRef[]): AsyncGenerator<Uint8Array, void> {
    for (const { bytes, hash, length } of blobs) {
      const part =
        bytes ?? this.#writer.waiting(hash) ?? (await this.#core.store.blob(hash, { offset: 0, length }))
      if (part?.byteLength !== length)
        throw new EngineError(
          'DATA_LOSS',
          `the stored content of the git object ${oid} is missing or incomplete`,
          { hash },
        )
      yield part
    }
  }
}

function blobsOf(oid: string, { type, blobs }: StoredObject): readonly BlobRef[] {
  if (type === 'blob') return blobs
  throw new EngineError('GIT_CORRUPT', `the repository uses the object ${oid} as a file, but it is a ${type}`)
}

function sizeOf({ blobs }: StoredObject): number {
  return blobs.reduce((sum, { length }) => sum + length, 0)
}

function encode(blob: BlobRef): EncodedBlob {
  return [blob.hash, blob.length]
}

/** All git objects of an engine that holds them in memory. */
export class MemoryGitObjects {
  readonly #tenants = new Map<string, Map<string, StoredObject>>()

  of(tenantKey: string): Map<string, StoredObject> {
    let objects = this.#tenants.get(tenantKey)
    if (objects === undefined) this.#tenants.set(tenantKey, (objects = new Map()))
    return objects
  }
}
