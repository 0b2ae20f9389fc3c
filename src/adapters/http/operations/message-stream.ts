import { Buffer } from 'node:buffer'
import { handlerLimits } from '../limits.js'
import type { ResponseStream } from '../server/http-messages.js'
import type { ResponseEncoder } from './encode.js'
import { failureOf } from '../http-error.js'
import type { TenantRoom } from '../server/room.js'
import type { BusMessage, ChangeBatch } from '../../../engine/index.js'
import { nextTurn } from '../../../engine/ports.js'

const newline = Buffer.from('\n')

const turnOver = Symbol('turn over')

export interface MessageStreamOptions {
  /**
   * The memory budget. A piece takes bytes from it before it is encoded, and returns them after it was sent.
   */
  readonly room: TenantRoom
  /** Called with the size of each piece, in bytes. */
  readonly sent: (bytes: number) => void
  /** Called once, when the stream stops reading items. */
  readonly end: () => void
}

/**
 * Sends items as lines of JSON. Items that are ready within one turn of the event loop form one piece. An
 * error is sent as the last line. The stream reads at most one item ahead.
 */
export class MessageStream implements ResponseStream {
  readonly #items: AsyncIterator<object>
  readonly #encoder: ResponseEncoder
  readonly #options: MessageStreamOptions
  #asked: Promise<IteratorResult<object>> | undefined
  #roomBytes = 0
  #ended = false

  constructor(items: AsyncIterable<object>, encoder: ResponseEncoder, options: MessageStreamOptions) {
    this.#items = items[Symbol.asyncIterator]()
    this.#encoder = encoder
    this.#options = options
  }

  async next(): Promise<Uint8Array | undefined> {
    this.#leaveRoom()
    if (this.#ended) return undefined
    const piece = Buffer.concat(await this.#lines())
    if (piece.byteLength === 0) return undefined
    this.#options.sent(piece.byteLength)
    return piece
  }

  cancel(): void {
    // The pending read fails when the subscription ends. Its error is irrelevant.
    this.#asked?.catch(() => undefined)
    this.#finish()
    this.#leaveRoom()
  }

  async #lines(): Promise<Buffer[]> {
    const lines: Buffer[] = []
    let turn: Promise<typeof turnOver> | undefined
    try {
      for (let bytes = 0; bytes < handlerLimits.streamPieceBytes;) {
        this.#asked ??= this.#items.next()
        const given =
          lines.length === 0 ? await this.#asked : await Promise.race([this.#asked, (turn ??= endOfTurn())])
        if (given === turnOver) break
        if (given.done !== true) {
          const needed = bytes + lineBytes(given.value)
          if (lines.length === 0) await this.#enterRoom(Math.max(needed, handlerLimits.streamPieceBytes))
          // The item belongs to the next piece.
          else if (needed > this.#roomBytes) break
        }
        this.#asked = undefined
        if (given.done === true || this.#ended) {
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

  async #enterRoom(bytes: number): Promise<void> {
    await this.#options.room.enter(bytes)
    this.#roomBytes = bytes
    if (this.#ended) this.#leaveRoom()
  }

  #leaveRoom(): void {
    this.#options.room.leave(this.#roomBytes)
    this.#roomBytes = 0
  }

  #finish(): void {
    if (this.#ended) return
    this.#ended = true
    this.#options.end()
  }
}

/** Returns an upper bound for the bytes of a line. All fields except payloads and changes are short. */
function lineBytes(item: object): number {
  const { result = {} } = item as { readonly result?: Partial<BusMessage & ChangeBatch> }
  const payload = Math.ceil((result.payload?.byteLength ?? 0) / 3) * 4
  // JSON writes a UTF-16 unit in at most 6 bytes.
  const changes = result.changes?.map(({ path }) => handlerLimits.changeBytes + 6 * path.length) ?? []
  return changes.reduce((sum, bytes) => sum + bytes, handlerLimits.lineBytes + payload)
}

async function endOfTurn(): Promise<typeof turnOver> {
  await nextTurn()
  return turnOver
}
