import { Buffer } from 'node:buffer'
import { itemAt } from '../../base/present.js'
import { Fault } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { runInSlices, type Steps } from '../../base/cooperative.js'
import type { Environment } from '../../base/environment.js'
import { decodeBlob, type BlobRef } from '../../cas/blob.js'
import type { ContentStore } from '../../cas/content.js'
import { cutIntoBlobs } from '../../cas/staging.js'
import type { EncodedContent } from '../../records/cache-entry.js'

/**
 * An immutable value. Up to a few KiB, it is a string with one character for each byte, which needs the least
 * memory. A larger value is a list of blobs; once they are stored, the blob cache may drop their bytes. The
 * size alone determines the form.
 */
export interface CacheContent {
  readonly size: number
  readonly bytes: string | readonly BlobRef[]
}

export const noContent: CacheContent = { size: 0, bytes: '' }

/** Copies a caller's bytes. */
export function toContent(value: Uint8Array): CacheContent {
  const size = value.byteLength
  if (size > limits.cacheInlineBytes) return { size, bytes: cutIntoBlobs(value) }
  return { size, bytes: asBuffer(value).toString('latin1') }
}

export function encodeContent({ bytes }: CacheContent): EncodedContent {
  return typeof bytes === 'string' ? Buffer.from(bytes, 'latin1').toString('base64') : bytes
}

export function decodeContent(encoded: EncodedContent): CacheContent {
  if (typeof encoded === 'string') return toContent(Buffer.from(encoded, 'base64'))
  const bytes = encoded.map(decodeBlob)
  return { size: bytes.reduce((size, blob) => size + blob.length, 0), bytes }
}

/**
 * Values as the JSON of {@link EncodedContent}. Encoding many takes long, so it is done in slices before the
 * write.
 */
export class EncodedValues {
  readonly #contents: readonly CacheContent[]
  readonly #environment: Environment
  #values: readonly string[] | undefined

  constructor(contents: readonly CacheContent[], environment: Environment) {
    this.#contents = contents
    this.#environment = environment
  }

  /**
   * The JSON of each value, in the order of the contents. Throws a Fault if they have not been encoded yet.
   */
  get(): readonly string[] {
    if (this.#values !== undefined) return this.#values
    throw new Fault(async () => {
      this.#values = await runInSlices(encodeAll(this.#contents), this.#environment)
    })
  }
}

function* encodeAll(contents: readonly CacheContent[]): Steps<string[]> {
  const values: string[] = []
  for (const content of contents) {
    values.push(JSON.stringify(encodeContent(content)))
    yield
  }
  return values
}

/** Whether the bytes are equal. Reads nothing: blobs that are not in memory are compared by their hashes. */
export function sameContent(a: CacheContent, b: CacheContent): boolean {
  if (a.size !== b.size) return false
  if (typeof a.bytes === 'string' || typeof b.bytes === 'string') return a.bytes === b.bytes
  const others = b.bytes
  return a.bytes.every((blob, index) => sameBlob(blob, itemAt(others, index)))
}

/** A new copy of the bytes. */
export function readContent(content: ContentStore, { size, bytes }: CacheContent): Buffer | Promise<Buffer> {
  if (typeof bytes === 'string') return Buffer.from(bytes, 'latin1')
  return bytes.length === 1
    ? content.read(bytes[0], 0, size)
    : content.using(bytes, () => readAll(content, bytes, size))
}

async function readAll(content: ContentStore, blobs: readonly BlobRef[], size: number): Promise<Buffer> {
  const target = Buffer.allocUnsafe(size)
  let offset = 0
  for (const blob of blobs) {
    target.set(await content.read(blob, 0, blob.length), offset)
    offset += blob.length
  }
  return target
}

function sameBlob(a: BlobRef, b: BlobRef): boolean {
  if (a.bytes !== undefined && b.bytes !== undefined) return a.bytes.equals(b.bytes)
  return a.hash === b.hash
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
