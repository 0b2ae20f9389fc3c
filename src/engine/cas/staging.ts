import { Buffer } from 'node:buffer'
import { Fault } from '../base/fault.js'
import { EngineError, invalid } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { nextTurn } from '../base/slices.js'
import type { Store } from '../storage/store.js'
import { BlobRef } from './blob.js'
import type { ContentStore } from './content.js'

/**
 * Content on its way in: copied from the caller and cut into blobs of at most one block. Content too large
 * for one storage commit is copied while it is stored, so its caller must leave it alone until then.
 */
export class StagedContent {
  readonly size: number
  readonly #input: Uint8Array
  readonly #store: Store
  readonly #content: ContentStore
  #blobs: BlobRef[] | undefined
  #storedAhead = false
  #ahead: { readonly file: object; readonly bytes: Buffer } | undefined

  constructor(input: unknown, context: { store: Store; content: ContentStore; maxFileBytes: number }) {
    this.#input = toBytes(input)
    this.size = this.#input.byteLength
    this.#store = context.store
    this.#content = context.content
    checkFileSize(this.size, context.maxFileBytes)
    if (this.size <= limits.importCommitBytes || !context.store.capabilities.durable)
      this.#blobs = this.#cutAll()
  }

  /**
   * The blobs, in order. Content too large for one storage commit is stored ahead of the event that names
   * it, which takes a Fault; its blobs need not be committed again.
   */
  blobs(): readonly BlobRef[] {
    if (this.#blobs === undefined) throw new Fault(() => this.storeAhead())
    return this.#blobs
  }

  /** The blobs that the event's own commit must hold. */
  toCommit(): readonly BlobRef[] {
    return this.#storedAhead ? [] : this.blobs()
  }

  /** Bytes of `file` that this content is to be merged with: read by a Fault, then at hand. */
  readAhead(file: object, read: () => Promise<Buffer>): Buffer {
    if (this.#ahead?.file === file) return this.#ahead.bytes
    throw new Fault(async () => {
      this.#ahead = { file, bytes: await read() }
    })
  }

  /** Whether `blobs` answers without a Fault. */
  get ready(): boolean {
    return this.#blobs !== undefined
  }

  /** Stores the content in commits of its own. */
  async storeAhead(): Promise<void> {
    const blobs: BlobRef[] = []
    for (let offset = 0; offset < this.size;) {
      const group: BlobRef[] = []
      for (
        ;
        offset < this.size && group.length * limits.blockBytes < limits.importCommitBytes;
        offset += limits.blockBytes
      ) {
        group.push(this.#cut(offset))
        await nextTurn()
      }
      await this.#store.commit({ blobs: group.map((blob) => ({ hash: blob.hash, bytes: blob.bytes! })) })
      for (const blob of group) this.#content.stored(blob)
      blobs.push(...group)
    }
    this.#blobs = blobs
    this.#storedAhead = true
  }

  #cutAll(): BlobRef[] {
    const blobs: BlobRef[] = []
    for (let offset = 0; offset < this.size; offset += limits.blockBytes) blobs.push(this.#cut(offset))
    return blobs
  }

  #cut(offset: number): BlobRef {
    const length = Math.min(limits.blockBytes, this.size - offset)
    const bytes = Buffer.allocUnsafe(length)
    bytes.set(length === this.size ? this.#input : this.#input.subarray(offset, offset + length))
    return BlobRef.of(bytes)
  }
}

export function checkFileSize(size: number, maxFileBytes: number): void {
  if (size <= maxFileBytes) return
  throw new EngineError('FILE_TOO_LARGE', `the file would have ${size} bytes`, {
    limit: String(maxFileBytes),
  })
}

function toBytes(input: unknown): Uint8Array {
  if (typeof input === 'string') return Buffer.from(input)
  if (input instanceof Uint8Array) return input
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
  throw invalid('content', 'must be a string or a Uint8Array')
}
