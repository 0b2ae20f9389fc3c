import { Buffer } from 'node:buffer'
import { assert } from '../base/errors.js'
import { sha256 } from '../base/hash.js'
import { byteLengthOf } from '../base/input.js'
import { limits } from '../base/limits.js'

/**
 * A handle on immutable bytes of at most one block. `bytes` is a cache. On a durable store, the bytes may be
 * dropped once the blob is stored. On a store that is not durable, they are the only copy and are freed with
 * the handle. The hash of bytes is computed only on request.
 */
export class BlobRef {
  readonly length: number
  bytes: Buffer | undefined
  #hash: string | undefined

  constructor(length: number, bytes: Buffer | undefined, hash: string | undefined) {
    this.length = length
    this.bytes = bytes
    this.#hash = hash
  }

  static of(bytes: Buffer): BlobRef {
    return new BlobRef(bytes.length, bytes, undefined)
  }

  /** Lower-case hex. */
  get hash(): string {
    if (this.#hash === undefined) {
      assert(this.bytes !== undefined, 'a blob without bytes has a hash')
      this.#hash = sha256(this.bytes)
    }
    return this.#hash
  }

  /** The hash if it is known; it is not computed. */
  get knownHash(): string | undefined {
    return this.#hash
  }

  toJSON(): EncodedBlob {
    return [this.hash, this.length]
  }
}

export type EncodedBlob = readonly [hash: string, length: number]

let slab: Buffer = Buffer.alloc(0)
let slabUsed = 0

/** A copy of a caller's bytes. Small copies share memory, which costs a tenth of separate memory. */
export function copyBytes(bytes: Uint8Array): Buffer {
  const byteLength = byteLengthOf(bytes)
  let copy: Buffer
  if (byteLength > limits.slabShareBytes) copy = Buffer.allocUnsafeSlow(byteLength)
  else {
    if (slabUsed + byteLength > slab.length) {
      slab = Buffer.allocUnsafeSlow(limits.slabBytes)
      slabUsed = 0
    }
    copy = slab.subarray(slabUsed, slabUsed + byteLength)
    slabUsed += byteLength
  }
  copy.set(bytes)
  return copy
}

export function decodeBlob(encoded: BlobRef | EncodedBlob): BlobRef {
  return encoded instanceof BlobRef ? encoded : new BlobRef(encoded[1], undefined, encoded[0])
}
