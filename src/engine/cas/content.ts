import { Buffer } from 'node:buffer'
import { itemAt, present } from '../base/present.js'
import type { Environment } from '../base/environment.js'
import { EngineError } from '../base/errors.js'
import { tooLarge } from '../base/input.js'
import { sha256, sha256Stream } from '../base/hash.js'
import { limits } from '../base/limits.js'
import { nextTurn, TimeSlice } from '../base/cooperative.js'
import { mustWait } from '../storage/sync-or-async.js'
import type { MeteredStore } from '../storage/metered-store.js'
import type { ByteRange, Store } from '../storage/store.js'
import { BlobRef } from './blob.js'
import { blockAt, ExtentBlock, forEachExtent, type Body, type LoadedBody } from './body.js'

/** Pins that keep contents; see the class `Pins`. */
export interface ContentPins {
  pin(request: { readonly contents: readonly Body[] }): Disposable
}

/** The approximate memory of a cached blob in addition to its bytes. */
const entryBytes = 256

/**
 * Reads and hashes the contents that bodies describe, and keeps a bounded cache of clean blobs. For a store that is not
 * durable, see {@link MemoryContent}.
 */
export class ContentStore {
  readonly #store: Store
  readonly #environment: Environment
  readonly #cached: BlobRef[] = []
  readonly #budgetBytes: number
  #cachedBytes = 0
  readonly #pins: ContentPins | undefined

  /** `budgetBytes` is the memory for cached blobs. `pins` is absent if there are no collections. */
  constructor(store: Store, environment: Environment, budgetBytes: number, pins?: ContentPins) {
    this.#store = store
    this.#pins = pins
    this.#budgetBytes = budgetBytes
    this.#environment = environment
  }

  /**
   * Whether to store a new content of a file as a patch of the old one, if most of it is the same. A store without
   * synchronous reads is a remote one, from which each part would be fetched by itself.
   */
  get storesPatches(): boolean {
    return this.#store.capabilities.syncReads
  }

  /** Protects contents from collection during a read, even contents of deleted files. */
  async using<T>(contents: readonly Body[], read: () => Promise<T>): Promise<T> {
    using _ = this.#pins?.pin({ contents })
    return await read()
  }

  /** Call this when a blob is stored. From then on, its bytes may be dropped and read again. */
  stored(blob: BlobRef): void {
    if (blob.length > limits.cachedBlobBytes) {
      blob.drop()
      return
    }
    this.#cached.push(blob)
    this.#cachedBytes += blob.length + entryBytes
    if (this.#cachedBytes > this.#budgetBytes) this.#evict()
  }

  /**
   * Whether contents of this many bytes are too large for one commit, so that they are stored before their
   * event.
   */
  mustStoreAhead(bytes: number): boolean {
    return bytes > limits.importCommitBytes
  }

  /**
   * A handle that is the only copy of a block's bytes. Undefined if the bytes must be stored.
   *
   * @throws {EngineError} BUDGET when the block would exceed a byte budget.
   */
  keepInMemory(_store: MeteredStore, _bytes: Uint8Array, _hash?: string): BlobRef | undefined {
    return undefined
  }

  /**
   * The bytes of a range as a new copy, with zeros in place of holes. Undefined if the read must be
   * asynchronous.
   */
  readSync(body: LoadedBody, offset: number, length: number): Buffer | undefined {
    if (body instanceof BlobRef && body.isLoaded && offset + length <= body.length) {
      const copy = Buffer.allocUnsafe(length)
      body.copyTo(copy, offset, length)
      return copy
    }
    const hulls = hullsOf(body, offset, length)
    for (const hull of hulls.values()) {
      hull.bytes ??= this.#blobSync(hull.blob, hull.from, hull.to - hull.from)
      if (hull.bytes === undefined) return undefined
    }
    return assemble(body, offset, length, hulls)
  }

  /**
   * The bytes of a range.
   *
   * @throws {EngineError} TOO_LARGE when the range is over 2 GiB − 1 bytes.
   */
  async read(body: LoadedBody, offset: number, length: number): Promise<Buffer> {
    if (length > limits.readBytes) throw tooLarge('length', 'bytes', limits.readBytes)
    if (length > limits.importCommitBytes)
      return this.using([body], () => this.#readLong(body, offset, length))
    const ready = this.readSync(body, offset, length)
    if (ready !== undefined) return ready
    const hulls = hullsOf(body, offset, length)
    const load = async (hull: Hull): Promise<void> => {
      hull.bytes ??= await this.#blob(hull.blob, hull.from, hull.to - hull.from)
    }
    await this.using([body], () => Promise.all([...hulls.values()].map(load)))
    return assemble(body, offset, length, hulls)
  }

  async #readLong(body: LoadedBody, offset: number, length: number): Promise<Buffer> {
    const target = Buffer.alloc(length)
    for (let done = 0; done < length; done += limits.blockBytes) {
      target.set(await this.read(body, offset + done, Math.min(limits.blockBytes, length - done)), done)
      await nextTurn()
    }
    return target
  }

  /**
   * All bytes of a blob; callers must not change them. It does not keep the bytes that it loads.
   *
   * @throws {EngineError} DATA_LOSS when the bytes are wrong.
   */
  async readBlob(blob: BlobRef): Promise<Uint8Array> {
    const { hash, length } = blob
    // An asynchronous read of a small blob takes longer than a synchronous one.
    const ready =
      blob.bytes ?? (length > limits.cachedBlobBytes ? undefined : this.#readNow(hash, { offset: 0, length }))
    const bytes = checkRead(
      blob,
      length,
      ready ?? (await this.using([blob], () => this.#store.blob(hash, { offset: 0, length }))),
    )
    if (sha256(bytes) !== hash)
      throw new EngineError(
        'DATA_LOSS',
        `the stored content (blob ${hash}) is damaged: its bytes do not match its hash`,
        { hash },
      )
    return bytes
  }

  /** A time slice for work on contents that must yield to the event loop. */
  slice(): TimeSlice {
    return new TimeSlice(this.#environment)
  }

  /** The SHA-256 of a whole content in hex, read in slices that yield to the event loop. */
  hash(body: LoadedBody, size: number): Promise<string> {
    return this.using([body], () => this.#hash(body, size))
  }

  async #hash(body: LoadedBody, size: number): Promise<string> {
    const hash = sha256Stream()
    const slice = this.slice()
    for (let offset = 0; offset < size; offset += limits.blockBytes) {
      const length = Math.min(limits.blockBytes, size - offset)
      const isHole = blockAt(body, offset / limits.blockBytes) === undefined
      hash.update(isHole ? zeros(length) : await this.read(body, offset, length))
      if (slice.over) await slice.next()
    }
    return hash.digest('hex')
  }

  /** The SHA-256 of one block's bytes, in hex. If it is known already, the bytes are not read. */
  async blockId(body: LoadedBody, blockNumber: number, size: number): Promise<string> {
    const start = blockNumber * limits.blockBytes
    const length = Math.min(limits.blockBytes, size - start)
    const block = blockAt(body, blockNumber)
    if (block instanceof BlobRef && block.length === length) return block.hash
    if (block instanceof ExtentBlock && length === limits.blockBytes) {
      return (block.id ??= sha256(await this.read(body, start, length)))
    }
    return sha256(await this.read(body, start, length))
  }

  /** Undefined if the read must be asynchronous. */
  #readNow(hash: string, range: ByteRange): Uint8Array | undefined {
    try {
      return this.#store.blobSync?.(hash, range)
    } catch (error) {
      if (mustWait(error)) return undefined
      throw error
    }
  }

  #blobSync(blob: BlobRef, offset: number, length: number): Uint8Array | undefined {
    if (blob.isLoaded) return blob.view(offset, length)
    if (this.#store.blobSync === undefined) return undefined
    try {
      if (blob.length > limits.cachedBlobBytes) {
        return checkRead(blob, length, this.#store.blobSync(blob.hash, { offset, length }))
      }
      const whole = checkRead(
        blob,
        blob.length,
        this.#store.blobSync(blob.hash, { offset: 0, length: blob.length }),
      )
      return this.#keep(blob, whole).subarray(offset, offset + length)
    } catch (error) {
      if (mustWait(error)) return undefined
      throw error
    }
  }

  async #blob(blob: BlobRef, offset: number, length: number): Promise<Uint8Array> {
    const ready = this.#blobSync(blob, offset, length)
    if (ready !== undefined) return ready
    if (blob.length > limits.cachedBlobBytes) {
      return checkRead(blob, length, await this.#store.blob(blob.hash, { offset, length }))
    }
    const whole = checkRead(
      blob,
      blob.length,
      await this.#store.blob(blob.hash, { offset: 0, length: blob.length }),
    )
    return this.#keep(blob, whole).subarray(offset, offset + length)
  }

  #keep(blob: BlobRef, bytes: Uint8Array): Buffer {
    const kept = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    blob.keep(kept)
    this.stored(blob)
    return kept
  }

  /**
   * Drops the bytes of the oldest blobs, down to three quarters of the budget, so that this happens seldom.
   */
  #evict(): void {
    let count = 0
    while (this.#cachedBytes > this.#budgetBytes * 0.75) {
      const blob = itemAt(this.#cached, count++)
      this.#cachedBytes -= blob.length + entryBytes
      blob.drop()
    }
    this.#cached.splice(0, count)
  }
}

/** The range of a blob that a read needs. It is read once, even for several extents. */
interface Hull {
  readonly blob: BlobRef
  from: number
  to: number
  bytes: Uint8Array | undefined
}

/**
 * The needed range of each blob. Loaded blobs are keyed by handle, one for each extent, and others by hash.
 */
function hullsOf(body: LoadedBody, offset: number, length: number): Map<BlobRef | string, Hull> {
  const hulls = new Map<BlobRef | string, Hull>()
  forEachExtent(body, { from: offset, to: offset + length }, (_start, count, blob, casOffset) => {
    if (hulls.has(blob)) return
    const { bytes } = blob
    if (bytes !== undefined) {
      // Keeps the bytes, because another read may drop them from the handle.
      hulls.set(blob, { blob, from: 0, to: blob.length, bytes })
      return
    }
    const hull = hulls.get(blob.hash)
    const to = casOffset + count
    if (hull === undefined) hulls.set(blob.hash, { blob, from: casOffset, to, bytes: undefined })
    else {
      hull.from = Math.min(hull.from, casOffset)
      hull.to = Math.max(hull.to, to)
    }
  })
  return hulls
}

function assemble(
  body: LoadedBody,
  offset: number,
  length: number,
  hulls: ReadonlyMap<BlobRef | string, Hull>,
): Buffer {
  const target = Buffer.alloc(length)
  forEachExtent(body, { from: offset, to: offset + length }, (start, count, blob, casOffset) => {
    const { from, bytes } = present(hulls.get(blob) ?? hulls.get(blob.hash), 'the range of a blob')
    const part = present(bytes, 'the content of a blob').subarray(casOffset - from, casOffset - from + count)
    target.set(part, start - offset)
  })
  return target
}

let zeroBlock: Buffer | undefined

/** Zeros from a shared buffer, so that a hole of any size costs one block of memory. */
function zeros(length: number): Buffer {
  return (zeroBlock ??= Buffer.alloc(limits.blockBytes)).subarray(0, length)
}

function checkRead(blob: BlobRef, length: number, bytes: Uint8Array | undefined): Uint8Array {
  if (bytes === undefined || bytes.byteLength !== length) {
    throw new EngineError('DATA_LOSS', `the stored content (blob ${blob.hash}) is missing or incomplete`, {
      hash: blob.hash,
    })
  }
  return bytes
}
