import { EngineError, itemAt } from '../../../engine/ports.js'
import { idBytes, type ObjectFormat } from '../objects/object-id.js'
import type { RandomBytes } from './random-bytes.js'

const signature = Buffer.from('\xfftOc\0\0\0\x02', 'latin1')
const fanoutBytes = 256 * 4
const idsStart = signature.length + fanoutBytes
const largeOffset = 2 ** 31

/** Finds the objects of one pack in its index, which must have version 2. */
export class PackIndex {
  readonly #bytes: RandomBytes
  readonly #idBytes: number
  /** For each value of the first byte, the number of ids with this first byte or a lower one. */
  readonly #fanout: readonly number[]

  private constructor(bytes: RandomBytes, format: ObjectFormat, fanout: readonly number[]) {
    this.#bytes = bytes
    this.#idBytes = idBytes(format)
    this.#fanout = fanout
  }

  /** Opens an index and checks its start and its size. Throws GIT_CORRUPT. */
  static async open(bytes: RandomBytes, format: ObjectFormat): Promise<PackIndex> {
    const head = await bytes.at(0, idsStart)
    if (head.length < idsStart || head.compare(signature, 0, 8, 0, 8) !== 0) {
      throw damaged('its version is not supported')
    }
    const fanout = Array.from({ length: 256 }, (_, byte) => head.readUInt32BE(signature.length + byte * 4))
    if (fanout.some((count, byte) => byte > 0 && count < itemAt(fanout, byte - 1)))
      throw damaged('its fan-out table is invalid')
    const least = idsStart + itemAt(fanout, 255) * (idBytes(format) + 8) + 2 * idBytes(format)
    if (bytes.size < least) throw damaged('it ends too early')
    return new PackIndex(bytes, format, fanout)
  }

  /** Returns the offset of an object in the pack, or undefined if the pack does not contain it. */
  async find(oid: string): Promise<number | undefined> {
    const id = Buffer.from(oid, 'hex')
    const first = id[0]
    if (first === undefined || id.length !== this.#idBytes) return undefined
    let low = first === 0 ? 0 : itemAt(this.#fanout, first - 1)
    let high = itemAt(this.#fanout, first)
    while (low < high) {
      const middle = (low + high) >>> 1
      const found = this.#bytes.at(idsStart + middle * this.#idBytes, this.#idBytes)
      const order = id.compare(found instanceof Promise ? await found : found)
      if (order === 0) return this.#offset(middle)
      if (order < 0) high = middle
      else low = middle + 1
    }
    return undefined
  }

  async #offset(entry: number): Promise<number> {
    const count = itemAt(this.#fanout, 255)
    // The ids are followed by checksums of four bytes each, and then by the offsets.
    const start = idsStart + count * (this.#idBytes + 4)
    const short = await this.#bytes.at(start + entry * 4, 4)
    const offset = short.readUInt32BE()
    if (offset < largeOffset) return offset
    const long = await this.#bytes.at(start + count * 4 + (offset - largeOffset) * 8, 8)
    if (long.length < 8) throw damaged('it ends too early')
    const place = Number(long.readBigUInt64BE())
    if (!Number.isSafeInteger(place)) throw damaged('an object has an invalid offset')
    return place
  }
}

export interface IndexedObject {
  readonly oid: string
  readonly offset: number
  /** Checksum of the object's bytes in the pack, including its header. */
  readonly crc32: number
}

/** Formats an index of version 2, in the order of the ids, without its own hash at the end. */
export function formatPackIndex(objects: readonly IndexedObject[], packChecksum: Buffer): Buffer {
  const sorted = [...objects].sort((a, b) => (a.oid < b.oid ? -1 : 1))
  const fanout = Buffer.alloc(fanoutBytes)
  const counts = new Uint32Array(256)
  for (const { oid } of sorted) {
    const first = Number.parseInt(oid.slice(0, 2), 16)
    counts[first] = itemAt(counts, first) + 1
  }
  let total = 0
  counts.forEach((count, byte) => fanout.writeUInt32BE((total += count), byte * 4))
  const crcs = Buffer.alloc(sorted.length * 4)
  const offsets = Buffer.alloc(sorted.length * 4)
  const large: Buffer[] = []
  sorted.forEach(({ offset, crc32 }, at) => {
    crcs.writeUInt32BE(crc32, at * 4)
    if (offset < largeOffset) {
      offsets.writeUInt32BE(offset, at * 4)
    } else {
      offsets.writeUInt32BE(largeOffset + large.length, at * 4)
      const place = Buffer.alloc(8)
      place.writeBigUInt64BE(BigInt(offset))
      large.push(place)
    }
  })
  const ids = Buffer.from(sorted.map(({ oid }) => oid).join(''), 'hex')
  return Buffer.concat([signature, fanout, ids, crcs, offsets, ...large, packChecksum])
}

function damaged(what: string): EngineError {
  return new EngineError('GIT_CORRUPT', `the index of a pack is damaged: ${what}`)
}
