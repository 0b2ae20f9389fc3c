import { Buffer } from 'node:buffer'
import { sha256 } from '../base/hash.js'
import { byteLengthOf } from '../base/input.js'
import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import type { StoredBlob } from '../storage/store.js'

/**
 * A handle on immutable bytes of at most one block. The bytes in memory are a cache. On a durable store, they may be
 * dropped once the blob is stored. On a store that is not durable, they are the only copy and are freed with
 * the handle. The hash of bytes is computed only on request.
 */
export class BlobRef {
  readonly length: number
  /**
   * The memory that holds the bytes from `#start` on. Other blobs may share it. A view of its own for each blob would
   * take 96 bytes more.
   */
  #memory: Buffer | undefined
  #start: number
  #hash: string | undefined

  private constructor(length: number, memory: Buffer | undefined, start: number, hash: string | undefined) {
    this.length = length
    this.#memory = memory
    this.#start = start
    this.#hash = hash
  }

  /** A blob with these bytes, which must not change later. */
  static of(bytes: Buffer, hash?: string): BlobRef {
    return new BlobRef(bytes.length, bytes, 0, hash)
  }

  /** A blob with a copy of a caller's bytes. Small copies share memory, which costs a tenth of separate memory. */
  static copyOf(bytes: Uint8Array, hash?: string): BlobRef {
    const length = byteLengthOf(bytes)
    if (length > limits.slabShareBytes) return BlobRef.of(copyBytes(bytes), hash)
    const start = reserve(length)
    slab.set(bytes, start)
    return new BlobRef(length, slab, start, hash)
  }

  /** A blob whose bytes are in the store. */
  static stored(hash: string, length: number): BlobRef {
    return new BlobRef(length, undefined, 0, hash)
  }

  /** Whether the bytes are in memory. */
  get isLoaded(): boolean {
    return this.#memory !== undefined
  }

  /** The bytes, if they are in memory. Each call makes a new view of them. */
  get bytes(): Buffer | undefined {
    return this.view(0, this.length)
  }

  /** A view of a range of the bytes, if they are in memory. The bytes after the blob may be those of another one. */
  view(offset: number, length: number): Buffer | undefined {
    return this.#memory?.subarray(this.#start + offset, this.#start + Math.min(offset + length, this.length))
  }

  /** Copies a range of the bytes to the start of `target`. The bytes must be in memory. */
  copyTo(target: Buffer, offset: number, length: number): void {
    const end = this.#start + Math.min(offset + length, this.length)
    present(this.#memory, 'the bytes of a loaded blob').copy(target, 0, this.#start + offset, end)
  }

  /** Keeps bytes that were read from the store. */
  keep(bytes: Buffer): void {
    this.#memory = bytes
    this.#start = 0
  }

  /** Drops the bytes. Later reads come from the store. */
  drop(): void {
    this.#memory = undefined
  }

  /** Lower-case hex. */
  get hash(): string {
    return (this.#hash ??= sha256(present(this.bytes, 'the bytes of a blob without a hash')))
  }

  /** The hash if it is known; it is not computed. */
  get knownHash(): string | undefined {
    return this.#hash
  }

  /** The blob as the store takes it. The bytes must be in memory. */
  toStore(): StoredBlob {
    const bytes = present(this.bytes, 'the content of a blob')
    return { hash: (this.#hash ??= sha256(bytes)), bytes }
  }

  toJSON(): EncodedBlob {
    return [this.hash, this.length]
  }
}

export type EncodedBlob = readonly [hash: string, length: number]

let slab: Buffer = Buffer.alloc(0)
let slabUsed = 0

/** Reserves bytes in the slab, or in a new one. Returns where they start. */
function reserve(length: number): number {
  if (slabUsed + length > slab.length) {
    slab = Buffer.allocUnsafeSlow(limits.slabBytes)
    slabUsed = 0
  }
  const start = slabUsed
  slabUsed += length
  return start
}

/** A copy of a caller's bytes. Small copies share memory. */
export function copyBytes(bytes: Uint8Array): Buffer {
  const length = byteLengthOf(bytes)
  let copy: Buffer
  if (length > limits.slabShareBytes) copy = Buffer.allocUnsafeSlow(length)
  else {
    const start = reserve(length)
    copy = slab.subarray(start, start + length)
  }
  copy.set(bytes)
  return copy
}

export function decodeBlob(encoded: BlobRef | EncodedBlob): BlobRef {
  return encoded instanceof BlobRef ? encoded : BlobRef.stored(encoded[0], encoded[1])
}

export function totalLength(blobs: readonly BlobRef[]): number {
  let length = 0
  for (const blob of blobs) length += blob.length
  return length
}
