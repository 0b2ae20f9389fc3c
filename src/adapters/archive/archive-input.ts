import { invalid, type ContentIn } from '../../engine/ports.js'
import { limitExceeded } from './errors.js'
import { archiveLimits } from './limits.js'
import type { Pacer } from './pacer.js'

/** The bytes of an archive as they come in, piece by piece. Counts them, and ends when it is aborted. */
export class ArchiveInput {
  readonly #content: ContentIn
  readonly #iterator: AsyncIterator<unknown>
  readonly #signal: AbortSignal
  readonly #pacer: Pacer
  readonly #onRead: () => void
  #waiting: ((reason: unknown) => void) | undefined
  #bytesRead = 0
  #ended = false

  constructor(
    content: ContentIn,
    { signal, pacer, onRead }: { signal: AbortSignal; pacer: Pacer; onRead: () => void },
  ) {
    this.#content = content
    this.#signal = signal
    this.#pacer = pacer
    this.#onRead = onRead
    this.#iterator = iterate(content)
    signal.addEventListener('abort', this.#abort)
  }

  get bytesRead(): number {
    return this.#bytesRead
  }

  /** The next piece, valid until it is called again; undefined at the end. Never waits beyond an abort. */
  async next(): Promise<Uint8Array | undefined> {
    this.#signal.throwIfAborted()
    if (this.#pacer.due) await this.#pacer.rest()
    const { done, value } = await this.#pull()
    if (done === true) {
      this.#ended = true
      return undefined
    }
    if (!(value instanceof Uint8Array)) throw invalid('content', 'must come in pieces of bytes')
    this.#bytesRead += value.byteLength
    if (this.#bytesRead > archiveLimits.contentBytes)
      throw limitExceeded('the archive is too large', archiveLimits.contentBytes)
    this.#onRead()
    return value
  }

  /** Ends whatever the bytes come from. */
  async close(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#abort)
    if (this.#ended) return
    this.#ended = true
    // A source that is asked for a piece looks at nothing else before it has one.
    if (this.#waiting !== undefined && isDestroyable(this.#content)) this.#content.destroy()
    const closing = (async () => this.#iterator.return?.())().catch(() => undefined)
    if (this.#waiting === undefined) await closing
  }

  readonly #abort = (): void => {
    this.#waiting?.(this.#signal.reason)
  }

  async #pull(): Promise<IteratorResult<unknown>> {
    const result = await new Promise<IteratorResult<unknown>>((resolve, reject) => {
      this.#waiting = reject
      this.#iterator.next().then(resolve, (error: unknown) => {
        this.#ended = true
        reject(error)
      })
    })
    this.#waiting = undefined
    this.#signal.throwIfAborted()
    return result
  }
}

function iterate(content: ContentIn): AsyncIterator<unknown> {
  if (content instanceof Uint8Array) return pieces(content)
  const iterable = content as AsyncIterable<unknown> | null | undefined
  if (typeof iterable?.[Symbol.asyncIterator] !== 'function')
    throw invalid('content', 'must be bytes or an async iterable of bytes')
  return iterable[Symbol.asyncIterator]()
}

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += archiveLimits.pieceBytes)
    yield bytes.subarray(at, at + archiveLimits.pieceBytes)
}

function isDestroyable(content: object): content is { destroy(): void } {
  return 'destroy' in content && typeof content.destroy === 'function'
}
