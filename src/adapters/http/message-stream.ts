import { Buffer } from 'node:buffer'
import type { AnswerStream } from './exchange.js'
import type { ResponseEncoder } from './encode.js'
import { failureOf } from './http-error.js'
import { nextTurn } from './steps.js'

/** Bytes after which a piece is full. */
const pieceBytes = 64 * 1024

const newline = Buffer.from('\n')

const turnOver = Symbol('turn over')

/**
 * Items as lines of JSON, in pieces: what is ready within one turn of the event loop is one piece. An error is
 * one more line, and the last. Nothing is asked for ahead, but for one item.
 */
export class MessageStream implements AnswerStream {
  readonly #items: AsyncIterator<object>
  readonly #encoder: ResponseEncoder
  readonly #sent: (bytes: number) => void
  readonly #end: () => void
  #asked: Promise<IteratorResult<object>> | undefined
  #ended = false

  /** `sent` is told of each piece, `end` is called once, when nothing more is read of the items. */
  constructor(
    items: AsyncIterable<object>,
    encoder: ResponseEncoder,
    sent: (bytes: number) => void,
    end: () => void,
  ) {
    this.#items = items[Symbol.asyncIterator]()
    this.#encoder = encoder
    this.#sent = sent
    this.#end = end
  }

  async next(): Promise<Uint8Array | undefined> {
    if (this.#ended) return undefined
    const piece = Buffer.concat(await this.#lines())
    if (piece.byteLength === 0) return undefined
    this.#sent(piece.byteLength)
    return piece
  }

  cancel(): void {
    // What was asked for ends with the subscription, as an error that nobody wants.
    this.#asked?.catch(() => undefined)
    this.#finish()
  }

  async #lines(): Promise<Buffer[]> {
    const lines: Buffer[] = []
    let turn: Promise<typeof turnOver> | undefined
    try {
      for (let bytes = 0; bytes < pieceBytes;) {
        this.#asked ??= this.#items.next()
        const given =
          lines.length === 0 ? await this.#asked : await Promise.race([this.#asked, (turn ??= endOfTurn())])
        if (given === turnOver) break
        this.#asked = undefined
        if (given.done === true) {
          this.#finish()
          break
        }
        const line = this.#line(given.value)
        lines.push(line)
        bytes += line.byteLength
      }
    } catch (error) {
      this.#finish()
      lines.push(Buffer.from(`${JSON.stringify({ error: failureOf(error).status })}\n`))
    }
    return lines
  }

  #line(item: object): Buffer {
    const json = this.#encoder.encode(item)
    return typeof json === 'string' ? Buffer.from(`${json}\n`) : Buffer.concat([json, newline])
  }

  #finish(): void {
    if (this.#ended) return
    this.#ended = true
    this.#end()
  }
}

async function endOfTurn(): Promise<typeof turnOver> {
  await nextTurn()
  return turnOver
}
