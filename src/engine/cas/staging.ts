import { Buffer } from 'node:buffer'
import { Fault } from '../base/fault.js'
import { EngineError, invalid } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { nextTurn } from '../base/slices.js'
import type { Store, StoredBlob } from '../storage/store.js'
import { BlobRef } from './blob.js'
import type { ContentStore } from './content.js'

/** Content on its way in: copied from the caller at once, and cut into blobs of at most one block. */
export class StagedContent {
  readonly size: number
  readonly #blobs: readonly BlobRef[]
  readonly #store: Store
  readonly #content: ContentStore
  /** Content too large for one storage commit is stored before the event that names it. */
  readonly #needsStoring: boolean
  #stored = false
  #ahead: { readonly file: object; readonly bytes: Buffer } | undefined

  constructor(input: unknown, context: { store: Store; content: ContentStore; maxFileBytes: number }) {
    const bytes = toBytes(input)
    this.size = bytes.byteLength
    this.#store = context.store
    this.#content = context.content
    checkFileSize(this.size, context.maxFileBytes)
    this.#blobs = cut(bytes)
    this.#needsStoring = this.size > limits.importCommitBytes && context.store.capabilities.durable
  }

  /** The blobs, in order; a Fault while content that must be stored ahead is not. */
  blobs(): readonly BlobRef[] {
    if (!this.ready) throw new Fault(() => this.storeAhead())
    return this.#blobs
  }

  /** The blobs that the event's own commit must hold. */
  toCommit(): readonly BlobRef[] {
    return this.#needsStoring ? [] : this.#blobs
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
    return !this.#needsStoring || this.#stored
  }

  /** Stores the content in commits of its own, with a turn of the event loop for each block. */
  async storeAhead(): Promise<void> {
    const perCommit = limits.importCommitBytes / limits.blockBytes
    for (let start = 0; start < this.#blobs.length; start += perCommit) {
      const group = this.#blobs.slice(start, start + perCommit)
      const blobs: StoredBlob[] = []
      for (const blob of group) {
        blobs.push({ hash: blob.hash, bytes: blob.bytes! })
        await nextTurn()
      }
      await this.#store.commit({ blobs })
    }
    // Only now: a second run must find the bytes, should this one fail.
    for (const blob of this.#blobs) this.#content.stored(blob)
    this.#stored = true
  }
}

function cut(bytes: Uint8Array): BlobRef[] {
  const blobs: BlobRef[] = []
  for (let offset = 0; offset < bytes.byteLength; offset += limits.blockBytes) {
    const length = Math.min(limits.blockBytes, bytes.byteLength - offset)
    const copy = Buffer.allocUnsafe(length)
    copy.set(length === bytes.byteLength ? bytes : bytes.subarray(offset, offset + length))
    blobs.push(BlobRef.of(copy))
  }
  return blobs
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
