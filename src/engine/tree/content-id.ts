import { itemAt, present } from '../base/present.js'
import { Fault } from '../base/fault.js'
import { emptyHash, sha256 } from '../base/hash.js'
import { limits } from '../base/limits.js'
import { BlobRef } from '../cas/blob.js'
import { blockAt, BlockBody, forEachExtent, UnloadedBody, type LoadedBody } from '../cas/body.js'
import type { ContentStore } from '../cas/content.js'
import type { FileNode } from './node.js'
import type { NodeLoader } from './node-loader.js'

/** Hashes of contents. Each hash is computed once per content, on first use. */
export class ContentIds {
  readonly #content: ContentStore
  readonly #loader: NodeLoader
  /** Hashes by {@link #signature}. The oldest ones are dropped first. */
  readonly #hashes = new Map<string, string>()
  readonly #numbers = new WeakMap<BlobRef, number>()
  #lastNumber = 0

  constructor(content: ContentStore, loader: NodeLoader) {
    this.#content = content
    this.#loader = loader
  }

  body(file: FileNode): LoadedBody {
    const { body } = file
    if (!(body instanceof UnloadedBody)) return body
    if (body.body === null) this.#loader.loadBody(file)
    return present(body.body, 'a loaded body')
  }

  /** The SHA-256 of the whole content, hex; undefined if it is not known without reading the content. */
  knownHash(file: FileNode): string | undefined {
    if (file.size === 0) return emptyHash
    return file.body instanceof BlobRef ? file.body.hash : file.hash
  }

  /** The SHA-256 of the whole content, hex. Throws a Fault if the content must be read first. */
  contentHash(file: FileNode): string {
    const known = this.knownHash(file)
    if (known !== undefined) return known
    const body = this.body(file)
    const signature = this.#signature(body, file.size)
    const memo = this.#hashes.get(signature)
    if (memo !== undefined) return (file.hash = memo)
    throw new Fault(async () => {
      file.hash = await this.#content.hash(body, file.size)
      this.#remember(signature, file.hash)
    })
  }

  /** Remembers the hash of a content in memory, for files that are made with it. */
  remember(file: FileNode, hash: string): void {
    this.#remember(this.#signature(this.body(file), file.size), hash)
  }

  #remember(signature: string, hash: string): void {
    this.#hashes.set(signature, hash)
    const [oldest] = this.#hashes.keys()
    if (oldest !== undefined && this.#hashes.size > limits.rememberedHashes) this.#hashes.delete(oldest)
  }

  /**
   * A key that only files with the same content share. It needs no hash of a content of several blobs. Throws a Fault
   * if the file must be read first.
   */
  contentKey(file: FileNode): string {
    return this.knownHash(file) ?? this.#signature(this.body(file), file.size)
  }

  /**
   * A key that is equal for bodies with the same ranges of the same blobs. A batch that runs again creates
   * new bodies, and finds their hashes by this key.
   */
  #signature(body: LoadedBody, size: number): string {
    const parts: (number | string)[] = [size]
    forEachExtent(body, { from: 0, to: size }, (offset, length, blob, casOffset) => {
      parts.push(offset, length, blob.knownHash ?? this.#numberOf(blob), casOffset)
    })
    return sha256(parts.join())
  }

  /** A number for a blob whose hash is not known yet. */
  #numberOf(blob: BlobRef): number {
    let number = this.#numbers.get(blob)
    if (number === undefined) this.#numbers.set(blob, (number = ++this.#lastNumber))
    return number
  }

  /**
   * The content's part of manifestHash. Up to one block, it is the SHA-256 of the content. Above that, it is
   * a hash over the hashes of the blocks, so that a patch of a large file costs only one block. A hole and a
   * block of zeros have the same hash.
   */
  contentId(file: FileNode): string {
    if (file.size <= limits.blockBytes) return this.contentHash(file)
    if (file.contentId === undefined) {
      const body = this.body(file)
      throw new Fault(async () => {
        file.contentId = await this.#blockTreeId(body, file.size)
      })
    }
    return file.contentId
  }

  async #blockTreeId(body: LoadedBody, size: number): Promise<string> {
    const lines: string[] = [`blocks ${size}`]
    let holes = 0
    const lastBlock = Math.floor((size - 1) / limits.blockBytes)
    const slice = this.#content.slice()
    for (let block = 0; block <= lastBlock;) {
      if (slice.over) await slice.next()
      const full = (block + 1) * limits.blockBytes <= size
      const skip = blockAt(body, block) === undefined ? Math.min(nextData(body, block), lastBlock) - block : 0
      if (skip > 0) {
        holes += skip
        block += skip
        continue
      }
      const id =
        full && blockAt(body, block) === undefined
          ? zeroBlockId()
          : await this.#content.blockId(body, block, size)
      if (full && id === zeroBlockId()) holes++
      else {
        if (holes > 0) lines.push(`zeros ${holes}`)
        holes = 0
        lines.push(id)
      }
      block++
    }
    if (holes > 0) lines.push(`zeros ${holes}`)
    return sha256(lines.join('\n'))
  }
}

/** The number of the first block from `block` on that may hold data; infinity if there is none. */
function nextData(body: LoadedBody, block: number): number {
  if (!(body instanceof BlockBody)) return body !== undefined && block === 0 ? 0 : Number.POSITIVE_INFINITY
  for (const [index, chunkNumber] of body.chunkNumbers.entries()) {
    const start = chunkNumber * limits.blocksPerChunk
    const blocks = itemAt(body.chunks, index)
    for (let i = Math.max(0, block - start); i < blocks.length; i++)
      if (blocks[i] !== undefined) return start + i
  }
  return Number.POSITIVE_INFINITY
}

let zeroBlock: string | undefined

function zeroBlockId(): string {
  return (zeroBlock ??= sha256(new Uint8Array(limits.blockBytes)))
}
