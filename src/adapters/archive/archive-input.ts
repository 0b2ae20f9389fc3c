import {
  abortable,
  invalid,
  isBytes,
  notInPieces,
  readBytes,
  type ContentIn,
  type TimeSlice,
} from '../../engine/ports.js'
import { limitExceeded } from './errors.js'
import { archiveLimits } from './limits.js'

/** Reads the bytes of an archive, piece by piece as they arrive. Counts the bytes, and stops on an abort. */
export class ArchiveInput {
  readonly #pieces: AsyncIterableIterator<unknown, undefined, unknown>
  readonly #slice: TimeSlice
  readonly #onRead: () => void
  #bytesRead = 0

  constructor(
    content: ContentIn,
    { signal, slice, onRead }: { signal: AbortSignal; slice: TimeSlice; onRead: () => void },
  ) {
    this.#pieces = abortable(piecesOf(content), signal)
    this.#slice = slice
    this.#onRead = onRead
  }

  get bytesRead(): number {
    return this.#bytesRead
  }

  /**
   * Returns the next piece, which is valid until the next call, or undefined at the end. An abort ends the
   * wait.
   */
  async next(): Promise<Uint8Array | undefined> {
    if (this.#slice.over) await this.#slice.next()
    const { done, value } = await this.#pieces.next()
    if (done === true) return undefined
    const piece = readBytes('content', value, notInPieces(value))
    this.#bytesRead += piece.byteLength
    if (this.#bytesRead > archiveLimits.contentBytes)
      throw limitExceeded('the archive is too large', archiveLimits.contentBytes)
    this.#onRead()
    return piece
  }

  /** Closes the source of the bytes. */
  async close(): Promise<void> {
    await this.#pieces.return?.()
  }
}

function piecesOf(content: ContentIn): AsyncIterable<unknown> {
  if (isBytes(content)) return cut(readBytes('content', content))
  const iterable = content as AsyncIterable<unknown> | null | undefined
  if (typeof iterable?.[Symbol.asyncIterator] !== 'function')
    throw invalid('content', 'must be bytes or an async iterable of bytes')
  return iterable
}

async function* cut(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += archiveLimits.pieceBytes)
    yield bytes.subarray(at, at + archiveLimits.pieceBytes)
}
