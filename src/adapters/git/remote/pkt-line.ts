import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'

/** The content of a packet, or the name of one of the three packets without content. */
export type Packet = Buffer | 'flush' | 'delimiter' | 'end'

const special = ['flush', 'delimiter', 'end'] as const

export const flushPacket = Buffer.from('0000')
export const delimiterPacket = Buffer.from('0001')

export function packet(content: string | Uint8Array): Buffer {
  const body = Buffer.from(content)
  return Buffer.concat([lengthOf(body.length), body])
}

/** The content of the bands of `side-band-64k`: data, progress, and an error that ends the stream. */
export type Band = 1 | 2 | 3

/** Packets of one band, with up to `gitLimits.bandBytes` each. */
export function bandPackets(band: Band, bytes: Uint8Array): Buffer {
  const parts: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += gitLimits.bandBytes) {
    const body = bytes.subarray(at, at + gitLimits.bandBytes)
    parts.push(lengthOf(body.length + 1), Buffer.of(band), body)
  }
  return Buffer.concat(parts)
}

function lengthOf(content: number): Buffer {
  return Buffer.from((content + 4).toString(16).padStart(4, '0'))
}

/** Splits a stream into packets. The bytes after a packet can also be read raw. */
export class PacketReader {
  readonly #source: AsyncIterator<Uint8Array>
  #buffer: Buffer = Buffer.alloc(0)
  #at = 0
  readonly #malformed: () => Error

  /** `malformed`: the error for a stream that is not made of packets. */
  constructor(source: AsyncIterable<Uint8Array>, malformed: () => Error = malformedResponse) {
    this.#source = source[Symbol.asyncIterator]()
    this.#malformed = malformed
  }

  /**
   * Returns the next packet, or undefined at the end of the stream. Throws GIT_CORRUPT if the stream ends
   * within a packet.
   */
  async read(): Promise<Packet | undefined> {
    if (!(await this.#fill(4))) {
      if (this.#at < this.#buffer.length) throw this.#malformed()
      return undefined
    }
    const digits = this.#buffer.toString('latin1', this.#at, this.#at + 4)
    if (!/^[0-9a-f]{4}$/i.test(digits)) throw this.#malformed()
    const length = Number.parseInt(digits, 16)
    if (length < 4) {
      const kind = special[length]
      if (kind === undefined) throw this.#malformed()
      this.#at += 4
      return kind
    }
    if (!(await this.#fill(length))) throw this.#malformed()
    const body = this.#buffer.subarray(this.#at + 4, this.#at + length)
    this.#at += length
    return body
  }

  /** All bytes after the packets read so far. Each iteration goes on where the one before it ended. */
  rest(): AsyncIterable<Buffer> {
    const next = async (): Promise<IteratorResult<Buffer>> => {
      const read = this.#buffer.subarray(this.#at)
      this.#at = this.#buffer.length
      if (read.length > 0) return { done: false, value: read }
      const piece = await this.#source.next()
      return piece.done === true ? piece : { done: false, value: asBuffer(piece.value) }
    }
    // Without the method `return`, an iteration that ends early does not end the next one.
    return { [Symbol.asyncIterator]: () => ({ next }) }
  }

  /** Ends the stream without reading the rest. */
  async close(): Promise<void> {
    await this.#source.return?.()
  }

  async #fill(count: number): Promise<boolean> {
    if (this.#buffer.length - this.#at >= count) return true
    const parts = [this.#buffer.subarray(this.#at)]
    let length = this.#buffer.length - this.#at
    while (length < count) {
      const next = await this.#source.next()
      if (next.done === true) break
      parts.push(asBuffer(next.value))
      length += next.value.length
    }
    this.#buffer = Buffer.concat(parts, length)
    this.#at = 0
    return length >= count
  }
}

/**
 * Returns a check that must be called for each packet outside of a pack. It throws GIT_TOO_LARGE above `most` bytes in
 * total.
 */
export function boundTalk(most: number = gitLimits.refsBytes): (packet: Packet | undefined) => void {
  let bytes = 0
  return (packet) => {
    bytes += Math.max(gitLimits.leastPacketBytes, packet instanceof Buffer ? packet.length : 0)
    if (bytes <= most) return
    throw new EngineError('GIT_TOO_LARGE', `the remote sent over ${most} bytes besides the pack`, {
      limit: String(most),
    })
  }
}

/** Returns the contents of the packets in a buffer, without the special packets. */
export function splitPackets(buffer: Buffer): Buffer[] {
  const packets: Buffer[] = []
  for (let at = 0; at + 4 <= buffer.length;) {
    const length = Number.parseInt(buffer.toString('latin1', at, at + 4), 16)
    if (Number.isNaN(length) || at + length > buffer.length) throw malformedResponse()
    if (length > 4) packets.push(buffer.subarray(at + 4, at + length))
    at += Math.max(length, 4)
  }
  return packets
}

/** Returns a packet's text without its trailing line feed. */
export function packetText(packet: Buffer): string {
  return packet.toString('utf8').replace(/\n$/, '')
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

function malformedResponse(): EngineError {
  return new EngineError('GIT_CORRUPT', 'the response of the remote is incomplete or malformed')
}
