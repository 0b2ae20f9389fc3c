import { Buffer } from 'node:buffer'
import { notInPieces, readBytes } from '../base/input.js'
import { limits } from '../base/limits.js'
import { nextTurn } from '../base/cooperative.js'
import type { MeteredStore } from '../storage/metered-store.js'
import type { StoredBlob } from '../storage/store.js'
import { BlobRef } from './blob.js'
import { normalize, layOver, type Piece } from './body-edit.js'
import type { LoadedBody } from './body.js'
import type { ContentStore } from './content.js'
import { checkFileSize } from './staging.js'

/** The content of a file, whole or in pieces of any size. The receiver owns bytes that are passed whole. */
export type ContentIn = Uint8Array | AsyncIterable<Uint8Array>

/**
 * Stores contents before the records that refer to them. It uses commits of a few MiB, one at a time. On a
 * store that is not durable, the bytes stay in their handles. Callers must hold a pin with `writesSince` from
 * before the first content until those records are committed.
 */
export class ContentWriter {
  readonly #store: MeteredStore
  readonly #content: ContentStore
  readonly #maxFileBytes: number
  /**
   * Blobs that wait to be stored, by hash. `#storing` has those that are being stored, because callers may
   * need them meanwhile.
   */
  #pending = new Map<string, Uint8Array>()
  #storing = new Map<string, Uint8Array>()
  #pendingBytes = 0
  #records: [string, string | object][] = []
  #commit: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined

  constructor(context: {
    readonly store: MeteredStore
    readonly content: ContentStore
    readonly maxFileBytes: number
  }) {
    this.#store = context.store
    this.#content = context.content
    this.#maxFileBytes = context.maxFileBytes
  }

  /** Rejects all further input with the error. Resolves once pending writes have ended. */
  async stop(error: unknown): Promise<void> {
    this.#failure ??= { error }
    await this.#commit
  }

  /**
   * Takes ownership of bytes and returns their blobs, one for each block.
   *
   * @throws {EngineError} FILE_TOO_LARGE when there are more than `maxFileBytes`.
   */
  take(bytes: Uint8Array): readonly BlobRef[] {
    checkFileSize(bytes.byteLength, this.#maxFileBytes)
    const blobs: BlobRef[] = []
    for (let at = 0; at < bytes.byteLength; at += limits.blockBytes) {
      blobs.push(this.#block(bytes.subarray(at, at + limits.blockBytes)))
    }
    return blobs
  }

  /** Like {@link take}, for bytes of any length. The event loop gets its turns. */
  async takeLong(bytes: Uint8Array): Promise<readonly BlobRef[]> {
    checkFileSize(bytes.byteLength, this.#maxFileBytes)
    const blobs: BlobRef[] = []
    for (let at = 0; at < bytes.byteLength; at += limits.hashedBytesPerTurn) {
      blobs.push(...this.take(bytes.subarray(at, at + limits.hashedBytesPerTurn)))
      await this.backpressure()
      await nextTurn()
    }
    return blobs
  }

  /** Takes ownership of at most one block of bytes and returns its blob, which may be empty. */
  takeValue(bytes: Uint8Array): BlobRef {
    return this.#block(bytes)
  }

  /** Like {@link takeValue}, for bytes whose hash is known. */
  takeHashed(hash: string, bytes: Uint8Array): BlobRef {
    return this.#block(bytes, hash)
  }

  /**
   * Stores content in pieces and returns its blobs. It passes on any error of the pieces, and of `check`, which gets the size
   * so far before each piece is stored.
   *
   * @throws {EngineError} FILE_TOO_LARGE when there are more than `maxFileBytes`.
   */
  async takePieces(
    pieces: AsyncIterable<Uint8Array>,
    check?: (size: number) => void,
  ): Promise<{ size: number; blobs: readonly BlobRef[] }> {
    const blobs: BlobRef[] = []
    let size = 0
    let waiting: Uint8Array[] = []
    let waitingBytes = 0
    const cut = (length: number): Promise<void> | undefined => {
      const joined = Buffer.concat(waiting, waitingBytes)
      waiting = length < waitingBytes ? [joined.subarray(length)] : []
      waitingBytes -= length
      blobs.push(this.#block(joined.subarray(0, length)))
      return this.backpressure()
    }
    for await (const piece of pieces) {
      const bytes = readBytes('content', piece, notInPieces(piece))
      if (bytes.byteLength === 0) continue
      size += bytes.byteLength
      checkFileSize(size, this.#maxFileBytes)
      check?.(size)
      // The caller may reuse the piece.
      waiting.push(bytes.slice())
      waitingBytes += bytes.byteLength
      while (waitingBytes >= limits.blockBytes) await cut(limits.blockBytes)
    }
    if (waitingBytes > 0) await cut(waitingBytes)
    return { size, blobs }
  }

  /** Stores a record together with the contents given so far. */
  record(key: string, value: string | object): void {
    this.#records.push([key, value])
    if (typeof value === 'string') this.#pendingBytes += value.length
  }

  /** The bytes of a blob that is not stored yet. */
  waiting(hash: string): Uint8Array | undefined {
    return this.#pending.get(hash) ?? this.#storing.get(hash)
  }

  /** Call this after each content. If it returns a promise, await it before the next content. */
  backpressure(): Promise<void> | undefined {
    if (this.#failure !== undefined) throw this.#failure.error
    const count = this.#pending.size + this.#records.length
    if (this.#pendingBytes < limits.importCommitBytes && count < limits.recordsPerCommit) return undefined
    const before = this.#commit
    if (before === undefined) {
      this.#storeNext()
      return undefined
    }
    return before.then(() => this.backpressure())
  }

  /** Resolves when everything is stored. */
  async flush(): Promise<void> {
    while (this.#commit !== undefined || this.#pending.size > 0 || this.#records.length > 0) {
      if (this.#commit === undefined) this.#storeNext()
      await this.#commit
      if (this.#failure !== undefined) throw this.#failure.error
    }
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #block(bytes: Uint8Array, known?: string): BlobRef {
    if (this.#failure !== undefined) throw this.#failure.error
    const inMemory = this.#content.keepInMemory(this.#store, bytes, known)
    if (inMemory !== undefined) return inMemory
    const blob = BlobRef.of(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), known)
    const { hash, length } = blob
    if (this.waiting(hash) === undefined) {
      this.#pending.set(hash, bytes)
      this.#pendingBytes += length
    }
    // Later reads come from the store.
    blob.drop()
    return blob
  }

  #storeNext(): void {
    const blobs: StoredBlob[] = []
    for (const [hash, bytes] of this.#pending) blobs.push({ hash, bytes })
    this.#storing = this.#pending
    this.#pending = new Map()
    this.#pendingBytes = 0
    const put = this.#records
    this.#records = []
    try {
      this.#store.admit?.(blobs.map(({ hash, bytes }) => ({ hash, length: bytes.byteLength })))
    } catch (error) {
      this.#failure = { error }
      return
    }
    this.#commit = this.#store
      .commit({ blobs, put })
      .then(
        () => undefined,
        (error: unknown) => {
          this.#failure = { error }
        },
      )
      .then(() => {
        this.#storing = new Map()
        this.#commit = undefined
      })
  }
}

/** The body of a file whose content is these blobs, one after the other. */
export function bodyOf(blobs: readonly BlobRef[], size: number): LoadedBody {
  if (blobs.length <= 1) return blobs[0]
  let offset = 0
  const pieces = blobs.map((blob): Piece => {
    const piece = { offset, length: blob.length, blob, casOffset: 0 }
    offset += blob.length
    return piece
  })
  return normalize(layOver(undefined, pieces), size)
}
