import { createHash } from 'node:crypto'
import { EngineError, present, TimeSlice, type GitObject } from '../../../engine/ports.js'
import { ByteCache } from './byte-cache.js'
import { applyDelta, deltaPieces, readDeltaHead } from './delta.js'
import { PendingDeltas, type AbsentBase, type PendingDelta } from './pending-deltas.js'
import { exactly, gather, inflatePieces, inflateWhole } from './inflate.js'
import { gitLimits } from '../limits.js'
import { objectId, type ObjectFormat } from '../objects/object-id.js'
import { checkDepth, checkObjectSize, PackBudget } from './pack-budget.js'
import { PackEntries } from './pack-entries.js'
import { maxEntryHeaderBytes, packHeaderBytes, readEntry, readPackHeader } from './pack-entry.js'
import { corruptPack, missingBase, packTooLarge } from './pack-errors.js'
import { PackInput } from './pack-input.js'

export interface PackReading {
  readonly format: ObjectFormat
  readonly signal: AbortSignal
  /**
   * Receives each object except large blobs. If the pack contains an object twice, it is received twice. The
   * receiver must not change the body, because later deltas use it. The reader awaits a promise before it
   * continues. `baseOid` is the id of the base of an object that was sent as a delta.
   */
  onObject(object: GitObject, baseOid?: string): void | Promise<void>
  /**
   * Receives each blob over `gitLimits.streamedBlobBytes`, in pieces. `oid` may be called after the last
   * piece.
   */
  onBlob(chunks: AsyncIterable<Uint8Array>, oid: () => string, baseOid?: string): Promise<void>
  /**
   * Returns a base that is no longer in memory, or that is not in this pack. It must find all objects that
   * `onObject` and `onBlob` have received.
   */
  getBase(oid: string): Promise<GitObject | undefined>
  onProgress?(objects: number, total: number): void
  /** An empty list. The reader adds the offsets and ids of the objects to it. */
  readonly entries?: PackEntries
}

/**
 * Reads a pack in one pass, without keeping its bytes. Every id is computed from the content. The trailer is
 * verified last, so any object may be damaged until this resolves. Throws GIT_TOO_LARGE, and GIT_CORRUPT,
 * with `details.baseOid` if a base is missing.
 */
export async function readPack(
  chunks: AsyncIterable<Uint8Array>,
  reading: PackReading,
): Promise<{ readonly objects: number }> {
  reading.signal.throwIfAborted()
  const budget = new PackBudget()
  const input = new PackInput(chunks, { ...reading, budget })
  try {
    return await new PackReader(input, budget, reading).read()
  } finally {
    await input.close()
  }
}

/** An entry whose object is complete. */
interface Given {
  readonly entry: number
  readonly type: GitObject['type']
  /** The length of its chain of deltas. */
  readonly depth: number
  readonly baseOid?: string
}

interface KnownBase extends GitObject {
  /** The length of its chain of deltas. */
  readonly depth: number
}

class PackReader {
  readonly #input: PackInput
  readonly #budget: PackBudget
  readonly #reading: PackReading
  readonly #slice: TimeSlice
  readonly #entries: PackEntries
  readonly #bases = new ByteCache<string, KnownBase>(gitLimits.baseCacheBytes)
  readonly #pending = new PendingDeltas()
  /** Deltas whose base has arrived. */
  readonly #ready: (PendingDelta & { readonly baseOid: string; readonly baseDepth: number })[] = []
  readonly #largeBlobs = new Map<string, number>()

  constructor(input: PackInput, budget: PackBudget, reading: PackReading) {
    this.#input = input
    this.#budget = budget
    this.#reading = reading
    this.#slice = new TimeSlice(performance, reading.signal)
    this.#entries = reading.entries ?? new PackEntries(reading.format)
  }

  async read(): Promise<{ readonly objects: number }> {
    await this.#input.fill(packHeaderBytes)
    const total = readPackHeader(this.#input.view)
    if (total > gitLimits.objects) throw packTooLarge('objects', gitLimits.objects)
    this.#input.skip(packHeaderBytes)
    for (let count = 0; count < total; count++) {
      if (this.#slice.over) {
        this.#reading.onProgress?.(count, total)
        await this.#slice.next()
      }
      await this.#readEntry()
      while (this.#ready.length > 0) await this.#resolveReady()
    }
    await this.#input.finish()
    const missing = this.#pending.missing()
    if (missing !== undefined) throw missingBase(missing)
    this.#reading.onProgress?.(total, total)
    return { objects: total }
  }

  async #readEntry(): Promise<void> {
    if (this.#input.available < maxEntryHeaderBytes) await this.#input.fill(maxEntryHeaderBytes)
    const offset = this.#input.offset
    const header = readEntry(this.#input.view, 0, this.#reading.format)
    const entry = this.#entries.add(offset)
    this.#input.skip(header.headerBytes)
    const { kind, size } = header
    if (kind === 'offset-delta' || kind === 'id-delta') {
      if (size > gitLimits.deltaBytes) throw packTooLarge('bytes in a delta', gitLimits.deltaBytes)
      const delta = await this.#inflate(size)
      const place = kind === 'id-delta' ? header.baseOid : this.#entryAt(offset - header.baseDistance)
      const base = await this.#findBase(place, delta)
      if (base === undefined) this.#pending.add(place, { entry, delta })
      else await this.#applyDelta(entry, delta, base)
      return
    }
    checkObjectSize(kind, size)
    if (size > gitLimits.streamedBlobBytes) {
      await this.#giveLarge({ entry, type: kind, size, depth: 0 }, this.#inflatePieces(size))
    } else {
      await this.#give({ entry, type: kind, depth: 0 }, await this.#inflate(size))
    }
  }

  async #inflate(size: number): Promise<Buffer> {
    if (size <= gitLimits.streamedBlobBytes) {
      // This is enough for all usual encoders. Others take the slower path below.
      const enough = size + (size >>> 8) + 64
      if (this.#input.available < enough) await this.#input.fill(enough)
      const whole = inflateWhole(this.#input.view, size)
      if (whole !== undefined) {
        this.#input.skip(whole.consumed)
        this.#budget.inflate(size)
        return whole.body
      }
    }
    return gather(this.#inMemory(this.#inflatePieces(size)), size)
  }

  /** Counts the inflated bytes, because the size in the header of the entry may be wrong. */
  async *#inflatePieces(size: number): AsyncGenerator<Buffer, void, undefined> {
    for await (const piece of exactly(inflatePieces(this.#input), size)) {
      this.#budget.inflate(piece.length)
      yield piece
    }
  }

  async *#inMemory(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
    let length = 0
    for await (const piece of pieces) {
      length += piece.length
      this.#budget.hold(length)
      yield piece
    }
  }

  #entryAt(offset: number): number {
    const entry = this.#entries.at(offset)
    if (entry === undefined || entry === this.#entries.count - 1) throw corruptPack('a delta has no base')
    return entry
  }

  async #findBase(place: AbsentBase, delta: Buffer): Promise<KnownBase | undefined> {
    const oid = typeof place === 'string' ? place : this.#entries.oid(place)
    if (oid === undefined) return undefined
    return this.#base(oid, delta, typeof place === 'string' ? 0 : this.#entries.depth(place))
  }

  async #base(oid: string, delta: Buffer, depth: number): Promise<KnownBase | undefined> {
    const known = this.#bases.get(oid)
    if (known !== undefined) return known
    const { baseSize } = readDeltaHead(delta)
    if (baseSize > gitLimits.deltaBytes)
      throw packTooLarge('bytes in the base of a delta', gitLimits.deltaBytes)
    const size = this.#largeBlobs.get(oid)
    if (size !== undefined) this.#budget.hold(size)
    const base = await this.#reading.getBase(oid)
    if (base === undefined) return undefined
    this.#budget.readBase(base.body.length)
    const found = { ...base, depth }
    this.#bases.set(oid, found, base.body.length)
    return found
  }

  async #applyDelta(entry: number, delta: Buffer, base: KnownBase): Promise<void> {
    const { type } = base
    const { resultSize } = readDeltaHead(delta)
    const depth = base.depth + 1
    checkDepth(depth)
    checkObjectSize(type, resultSize)
    this.#budget.inflate(resultSize)
    if (resultSize > gitLimits.streamedBlobBytes) {
      const pieces = deltaPieces(delta, base.body, this.#slice)
      await this.#giveLarge({ entry, type, size: resultSize, depth, baseOid: base.oid }, pieces)
    } else {
      const body = await applyDelta(delta, base.body, this.#slice)
      await this.#give({ entry, type, depth, baseOid: base.oid }, body)
    }
  }

  async #resolveReady(): Promise<void> {
    const { entry, delta, baseOid, baseDepth } = present(this.#ready.pop(), 'an object that is ready')
    const base = await this.#base(baseOid, delta, baseDepth)
    if (base === undefined) throw missingBase(baseOid)
    await this.#applyDelta(entry, delta, base)
    if (this.#slice.over) await this.#slice.next()
  }

  async #give({ entry, type, depth, baseOid }: Given, body: Buffer): Promise<void> {
    const object = { oid: objectId(type, body, this.#reading.format), type, body }
    this.#bases.set(object.oid, { ...object, depth }, body.length)
    await this.#reading.onObject(object, baseOid)
    this.#resolved(entry, object.oid, depth)
  }

  /** Passes a large object to the receiver: a blob in pieces, any other object as a whole. */
  async #giveLarge(
    { entry, type, size, depth, baseOid }: Given & { readonly size: number },
    pieces: AsyncGenerator<Buffer, void, undefined>,
  ): Promise<void> {
    const hash = createHash(this.#reading.format).update(`${type} ${size}\0`)
    let oid: string | undefined
    const { signal } = this.#reading
    const hashed = async function* (): AsyncGenerator<Buffer, void, undefined> {
      for await (const piece of pieces) {
        signal.throwIfAborted()
        hash.update(piece)
        yield piece
      }
      oid = hash.digest('hex')
    }
    const askedOid = (): string => {
      if (oid === undefined)
        throw new EngineError('INTERNAL', 'the id of a blob was requested before its end')
      return oid
    }
    if (type === 'blob') {
      await this.#reading.onBlob(hashed(), askedOid, baseOid)
    } else {
      const body = await gather(hashed(), size)
      await this.#reading.onObject({ oid: askedOid(), type, body }, baseOid)
    }
    this.#largeBlobs.set(askedOid(), size)
    this.#resolved(entry, askedOid(), depth)
  }

  #resolved(entry: number, oid: string, depth: number): void {
    this.#entries.resolve(entry, oid, depth)
    for (const pending of this.#pending.take(entry, oid))
      this.#ready.push({ ...pending, baseOid: oid, baseDepth: depth })
  }
}
