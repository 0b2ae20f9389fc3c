import type { GitObject, TimeSlice } from '../../../engine/ports.js'
import type { ByteCache } from './byte-cache.js'
import { applyDelta, deltaPieces, readDeltaHead } from './delta.js'
import { exactly, gather, inflatePieces, inflateWhole } from './inflate.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from '../objects/object-id.js'
import { wholeBody, type OpenedObject } from './opened-object.js'
import { checkDepth, checkObjectSize } from './pack-budget.js'
import { maxEntryHeaderBytes, packHeaderBytes, readEntry, type PackEntry } from './pack-entry.js'
import { corruptPack, missingBase, packTooLarge } from './pack-errors.js'
import { SequentialBytes, type RandomBytes } from './random-bytes.js'

export interface PackedOptions {
  /** Identifies the pack in the cache. */
  readonly name: string
  readonly cache: BaseCache
  readonly format: ObjectFormat
  readonly slice: TimeSlice
  /** The offset of an object in the pack. */
  find(oid: string): number | undefined | Promise<number | undefined>
  /** Returns a base that is not in the pack. */
  getBase?(oid: string): Promise<GitObject | undefined>
}

type WholeObject = Pick<GitObject, 'type' | 'body'>

/** A cache of objects of several packs. The key consists of the name of the pack and the offset in it. */
export type BaseCache = ByteCache<string, WholeObject>

interface DeltaAt {
  readonly offset: number
  readonly delta: Buffer
}

/** Reads the objects of one pack by their offsets. */
export class PackedObjects {
  readonly #bytes: RandomBytes
  readonly #options: PackedOptions

  constructor(bytes: RandomBytes, options: PackedOptions) {
    this.#bytes = bytes
    this.#options = options
  }

  /** Opens the object at an offset and applies its deltas. Throws GIT_CORRUPT and GIT_TOO_LARGE. */
  async open(offset: number): Promise<OpenedObject> {
    const deltas: DeltaAt[] = []
    let object = await this.#openBase(offset, deltas)
    for (let next = deltas.pop(); next !== undefined; next = deltas.pop()) {
      const base = { type: object.type, body: await wholeBody(object) }
      object = await this.#apply(next, base, deltas.length === 0)
    }
    return object
  }

  /**
   * Follows a chain of deltas to an object that is not a delta. Adds the deltas to `deltas`, the outermost
   * first.
   */
  async #openBase(start: number, deltas: DeltaAt[]): Promise<OpenedObject> {
    let deltaBytes = 0
    for (let offset = start; ;) {
      const cached = this.#options.cache.get(this.#key(offset))
      if (cached !== undefined) return cached
      const entry = await this.#readEntry(offset)
      const { kind, size } = entry
      const bodyOffset = offset + entry.headerBytes
      if (kind !== 'offset-delta' && kind !== 'id-delta') {
        checkObjectSize(kind, size)
        if (size > gitLimits.streamedBlobBytes)
          return { type: kind, size, pieces: this.#pieces(bodyOffset, size) }
        return this.#keep(offset, { type: kind, body: await this.#inflate(bodyOffset, size) })
      }
      deltaBytes += size
      if (deltaBytes > gitLimits.deltaBytes) throw packTooLarge('bytes in deltas', gitLimits.deltaBytes)
      deltas.push({ offset, delta: await this.#inflate(bodyOffset, size) })
      checkDepth(deltas.length)
      if (this.#options.slice.over) await this.#options.slice.next()
      if (kind === 'offset-delta') {
        offset -= entry.baseDistance
        if (offset < packHeaderBytes || entry.baseDistance === 0) throw corruptPack('a delta has no base')
        continue
      }
      const place = await this.#options.find(entry.baseOid)
      if (place !== undefined) {
        // Every cycle has a step to the same entry or to a later one, so only such steps are checked.
        if (place >= offset && deltas.some((delta) => delta.offset === place)) {
          throw corruptPack(`a delta on the object ${entry.baseOid} builds on itself`)
        }
        offset = place
        continue
      }
      const base = await this.#options.getBase?.(entry.baseOid)
      if (base === undefined) throw missingBase(entry.baseOid)
      return base
    }
  }

  async #apply({ offset, delta }: DeltaAt, base: WholeObject, isLast: boolean): Promise<OpenedObject> {
    const { slice } = this.#options
    const { type } = base
    const { resultSize } = readDeltaHead(delta)
    checkObjectSize(type, resultSize)
    if (resultSize > gitLimits.streamedBlobBytes && isLast) {
      return { type, size: resultSize, pieces: deltaPieces(delta, base.body, slice) }
    }
    if (resultSize > gitLimits.deltaBytes) {
      throw packTooLarge('bytes in the base of a delta', gitLimits.deltaBytes)
    }
    if (slice.over) await slice.next()
    return this.#keep(offset, { type, body: await applyDelta(delta, base.body, slice) })
  }

  #keep(offset: number, object: WholeObject): WholeObject {
    this.#options.cache.set(this.#key(offset), object, object.body.length)
    return object
  }

  #key(offset: number): string {
    return `${this.#options.name}:${offset}`
  }

  async #readEntry(offset: number): Promise<PackEntry> {
    return readEntry(await this.#bytes.at(offset, maxEntryHeaderBytes), 0, this.#options.format)
  }

  async #inflate(offset: number, size: number): Promise<Buffer> {
    if (size <= gitLimits.streamedBlobBytes) {
      // This is enough for all usual encoders. Others take the slower path below.
      const input = await this.#bytes.at(offset, size + (size >>> 8) + 64)
      const whole = inflateWhole(input, size)
      if (whole !== undefined) return whole.body
    }
    return gather(this.#pieces(offset, size), size)
  }

  #pieces(offset: number, size: number): AsyncGenerator<Buffer, void, undefined> {
    return exactly(inflatePieces(new SequentialBytes(this.#bytes, offset)), size)
  }
}
