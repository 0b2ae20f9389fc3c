/** Changes of binary files as git writes them with `--binary`, applied by the rules of `git apply`. */
import { Buffer } from 'node:buffer'
import { inflate } from 'node:zlib'
import type { Steps } from '../base/cooperative.js'
import { EngineError } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import { base85Bytes } from './base85.js'
import { applyBinaryDelta } from './binary-delta.js'
import { byteTextOf, type ByteText } from './byte-text.js'
import { invalidPatch } from './patch-error.js'
import { gitBlobId } from './git-blob-id.js'

/** A change of a binary file: its new content, or a delta from its old one. */
export interface BinaryChange {
  readonly format: 'binary'
  /** The full ids of both contents in git, in hex; zeros for no content. */
  readonly oldId: string
  readonly newId: string
  readonly data: BinaryData
  /** The data of the change back. It is only checked. */
  readonly reverse: BinaryData | undefined
}

/** The place of the data in a patch. */
export interface BinaryPlace {
  /** The path of the file, for errors. */
  readonly file: string
  /** The number of the first line. */
  readonly line: number
}

/** The compressed data of one direction of a binary change. */
export class BinaryData {
  readonly method: 'literal' | 'delta'
  /** The bytes of the data after decompression, as the patch states them. */
  readonly size: number
  readonly #place: BinaryPlace
  readonly #packed: Buffer
  #content: ByteText | undefined

  constructor(
    head: { readonly method: 'literal' | 'delta'; readonly size: number },
    lines: readonly ByteText[],
    place: BinaryPlace,
  ) {
    this.method = head.method
    this.size = head.size
    this.#place = place
    this.#packed = Buffer.concat(
      lines.map((line, index) => {
        const bytes = base85Bytes(line)
        if (bytes !== undefined) return bytes
        throw invalidPatch(`line ${place.line + 1 + index} is no data of a binary change of ${place.file}`, {
          file: place.file,
          line: String(place.line + 1 + index),
        })
      }),
    )
  }

  /** The data. Call `inflate` first. */
  get content(): ByteText {
    return present(this.#content, 'the decompressed data')
  }

  /**
   * Decompresses the data, off the main thread.
   *
   * @throws {EngineError} INVALID_PATCH when the data is damaged, or has another size than the patch states.
   */
  async inflate(): Promise<void> {
    const { file, line } = this.#place
    const bytes = await inflateBytes(this.#packed, this.size)
    if (bytes?.length !== this.size)
      throw invalidPatch(
        `the binary data of ${file} in line ${line} is damaged, or does not have ${this.size} bytes; make the patch again`,
        { file, line: String(line) },
      )
    this.#content = byteTextOf(bytes)
  }
}

/** Undefined if the bytes are damaged, or more than `size`. */
function inflateBytes(packed: Buffer, size: number): Promise<Buffer | undefined> {
  const chunkSize = Math.max(limits.inflateChunkMinBytes, Math.min(size, limits.inflateChunkBytes))
  return new Promise((resolve) => {
    inflate(packed, { maxOutputLength: Math.max(1, size), chunkSize }, (error, bytes) => {
      resolve(error === null ? bytes : undefined)
    })
  })
}

/**
 * The new content of a binary file. `before`: undefined for a new file. The ids must be those of both contents.
 *
 * @throws {EngineError} NO_MATCH when the old content has another id.
 * @throws {EngineError} INVALID_PATCH when the new content has another id, or the delta is malformed.
 */
export function* applyBinary(
  before: ByteText | undefined,
  { oldId, newId, data }: BinaryChange,
  path: string,
): Steps<ByteText, undefined> {
  const algorithm = oldId.length === 40 ? 'sha1' : 'sha256'
  if (before !== undefined) {
    const id = gitBlobId(before, algorithm)
    yield
    if (id !== oldId)
      throw new EngineError(
        'NO_MATCH',
        `${path} has the content ${id} in git's notation, but the patch changes ${oldId}; make a new patch for this content`,
        { path, expectedId: oldId, actualId: id },
      )
  }
  if (/^0+$/.test(newId)) return ''
  const after =
    data.method === 'literal'
      ? data.content
      : yield* applyBinaryDelta(data.content, before ?? '', { path, maxBytes: limits.textFileBytes })
  const id = gitBlobId(after, algorithm)
  yield
  if (id !== newId)
    throw invalidPatch(
      `the binary change of ${path} gives the content ${id}, but its index line states ${newId}; make the patch again`,
      { file: path },
    )
  return after
}
