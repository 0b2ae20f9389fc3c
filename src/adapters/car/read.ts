import { asyncIterableReader, readBlockHead, readHeader, type BytesReader } from '@ipld/car/decoder'
import { copyBytes, EngineError, notInPieces, type BundleBlock, onlyItem } from '../../engine/ports.js'
import { checkHash, describeCid, refused } from './blocks.js'
import { carLimits } from './limits.js'

/** An upper bound on the size of the length field that precedes each block. */
const prefixBytes = 8

/**
 * Yields the blocks of a CARv1 file, starting with the root. The bytes of a block are valid until the next
 * block is requested. Throws INVALID_BUNDLE. Errors of `content` are rethrown unchanged.
 */
export async function* readBlocks(content: AsyncIterable<Uint8Array>): AsyncGenerator<BundleBlock, void> {
  const source = new Source(content)
  const reader = new BoundedReader(asyncIterableReader(source.pieces()))
  try {
    yield* blocksOf(reader)
  } catch (error) {
    // An error of the content does not mean that the bundle is invalid.
    if (source.failure !== undefined) throw source.failure.error
    throw error
  } finally {
    await source.close()
  }
}

async function* blocksOf(reader: BoundedReader): AsyncGenerator<BundleBlock, void> {
  const { roots } = await attempt(reader, carLimits.headerBytes, () => readHeader(reader, 1))
  const only = onlyItem(roots)
  if (only === undefined) throw refused('it does not have exactly one root')
  const root = describeCid(only)
  for (let isFirst = true; (await reader.upTo(prefixBytes)).byteLength > 0; isFirst = false) {
    const { cid, blockLength } = await attempt(reader, carLimits.cidBytes, () => readBlockHead(reader))
    const { kind, hash } = describeCid(cid)
    if (isFirst && (kind !== root.kind || hash !== root.hash))
      throw refused('its first block is not its root')
    const limit = kind === 'raw' ? carLimits.rawBytes : carLimits.jsonBytes
    if (!(blockLength >= 0 && blockLength <= limit)) throw refused('a block is too large')
    const bytes = await attempt(reader, limit, () => reader.exactly(blockLength, true))
    checkHash(hash, bytes)
    yield { kind, hash, bytes }
  }
}

async function attempt<T>(reader: BoundedReader, limit: number, read: () => Promise<T>): Promise<T> {
  reader.limit = limit
  try {
    return await read()
  } catch (cause) {
    if (cause instanceof EngineError) throw cause
    throw refused((cause as Error).message, { cause })
  }
}

/** Limits the size of each read, because the lengths in a file cannot be trusted. */
class BoundedReader implements BytesReader {
  limit = 0
  readonly #reader: BytesReader

  constructor(reader: BytesReader) {
    this.#reader = reader
  }

  get pos(): number {
    return this.#reader.pos
  }

  upTo(length: number): Promise<Uint8Array> {
    return this.#reader.upTo(length)
  }

  async exactly(length: number, seek?: boolean): Promise<Uint8Array> {
    if (!(length >= 0 && length <= this.limit)) throw refused('a part of it is too large')
    return this.#reader.exactly(length, seek)
  }

  seek(length: number): void {
    this.#reader.seek(length)
  }
}

/** Reads the content, and records its error if it fails. */
class Source {
  failure: { readonly error: unknown } | undefined
  readonly #iterator: AsyncIterator<Uint8Array>

  constructor(content: AsyncIterable<Uint8Array>) {
    this.#iterator = content[Symbol.asyncIterator]()
  }

  async *pieces(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      let step: IteratorResult<Uint8Array>
      try {
        step = await this.#iterator.next()
        if (step.done !== true) step.value = copyBytes('content', step.value, notInPieces(step.value))
      } catch (error) {
        this.failure = { error }
        throw error
      }
      if (step.done === true) return
      if (step.value.byteLength > 0) yield step.value
    }
  }

  async close(): Promise<void> {
    await this.#iterator.return?.()
  }
}
