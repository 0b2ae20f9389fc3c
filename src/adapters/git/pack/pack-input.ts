import { createHash } from 'node:crypto'
import { abortable } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import type { ByteInput } from './inflate.js'
import { idBytes, type ObjectFormat } from '../objects/object-id.js'
import type { PackBudget } from './pack-budget.js'
import { corruptPack } from './pack-errors.js'

/** Reads the bytes of a pack as they arrive. Only a window of the next bytes is in memory. */
export class PackInput implements ByteInput {
  readonly #chunks: AsyncIterableIterator<Uint8Array, undefined, unknown>
  readonly #budget: PackBudget
  readonly #idBytes: number
  readonly #hash
  #window: Buffer = Buffer.alloc(0)
  #at = 0
  /** The end of the hashed part of the window. */
  #hashedTo = 0
  /** The offset of the window in the pack. */
  #windowOffset = 0
  #ended = false

  constructor(
    chunks: AsyncIterable<Uint8Array>,
    options: { readonly format: ObjectFormat; readonly budget: PackBudget; readonly signal: AbortSignal },
  ) {
    this.#chunks = abortable(chunks, options.signal)
    this.#budget = options.budget
    this.#idBytes = idBytes(options.format)
    this.#hash = createHash(options.format)
  }

  /** The offset of the next byte in the pack. */
  get offset(): number {
    return this.#windowOffset + this.#at
  }

  /** All bytes that have arrived and are not yet read. */
  get view(): Buffer {
    return this.#window.subarray(this.#at)
  }

  get available(): number {
    return this.#window.length - this.#at
  }

  /** Waits until this many bytes have arrived, or the stream ends. */
  async fill(count: number): Promise<void> {
    if (this.available >= count || this.#ended) return
    this.#hashUpTo(this.#at)
    const parts: Uint8Array[] = this.available === 0 ? [] : [this.view]
    let length = this.available
    const wanted = Math.max(count, gitLimits.readAheadBytes)
    while (length < wanted) {
      const next = await this.#chunks.next()
      if (next.done === true) {
        this.#ended = true
        break
      }
      this.#budget.receive(next.value.length)
      parts.push(next.value)
      length += next.value.length
    }
    this.#windowOffset += this.#at
    this.#at = 0
    this.#hashedTo = 0
    const [first] = parts
    this.#window =
      parts.length === 1 && first !== undefined
        ? Buffer.from(first.buffer, first.byteOffset, first.length)
        : Buffer.concat(parts, length)
  }

  peek(): Buffer | Promise<Buffer> {
    return this.available > 0 ? this.view : this.fill(1).then(() => this.view)
  }

  skip(count: number): void {
    this.#at += count
    if (this.#at - this.#hashedTo >= gitLimits.readAheadBytes) this.#hashUpTo(this.#at)
  }

  /**
   * Reads the trailer. Throws GIT_CORRUPT unless it is the hash of all preceding bytes and the pack ends
   * after it.
   */
  async finish(): Promise<void> {
    this.#hashUpTo(this.#at)
    await this.fill(this.#idBytes + 1)
    if (this.available < this.#idBytes) throw corruptPack('it ends too early')
    if (this.view.toString('hex', 0, this.#idBytes) !== this.#hash.digest('hex')) {
      throw corruptPack('its checksum is wrong')
    }
    if (this.available > this.#idBytes) throw corruptPack('bytes follow its end')
  }

  /** Closes the stream. This is also allowed before its end. */
  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  #hashUpTo(end: number): void {
    if (end > this.#hashedTo) this.#hash.update(this.#window.subarray(this.#hashedTo, end))
    this.#hashedTo = end
  }
}
