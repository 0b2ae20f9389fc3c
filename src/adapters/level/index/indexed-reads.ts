import { Buffer } from 'node:buffer'
import { decodeSeq, limits, itemAt, nextTurn } from '../../../engine/ports.js'
import type { ByteRange, ScanRange, StoredBlobSize } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import { blobKey, eventKey } from '../log/commit-frame.js'
import { EntryReader } from '../log/entry-reader.js'
import type { LiveIndex } from './live-index.js'
import type { Place } from './memtable.js'
import { blobBytesOf, fromBinary, toBinary } from '../log/segment-format.js'
import type { Segments } from '../log/segments.js'

const seqWidth = 8

/** An event, as JSON text. */
export interface EventText {
  readonly seq: number
  readonly text: string
}

/**
 * The reads of a store. They look up the place of an entry in the index, then read the entry from the
 * segments.
 */
export abstract class IndexedReads {
  readonly #reader: EntryReader

  constructor(segments: Pick<Segments, 'file'>) {
    this.#reader = new EntryReader(segments)
  }

  /** Runs a lookup in the index as it is now. */
  protected abstract look<T>(find: (index: LiveIndex) => T): T

  /** The repair to await before retrying a read that failed with this error. */
  protected abstract whenRepaired(error: unknown): Promise<void> | undefined

  /** The error that a failed read of the segments is rejected with. */
  protected abstract asReadError(error: unknown): unknown

  async get(key: string): Promise<string | undefined> {
    const name = recordName(key)
    const place = await this.#find((index) => index.get(name))
    return place && this.#read(this.#reader.text(name, place))
  }

  getSync(key: string): string | undefined {
    const name = recordName(key)
    const place = this.look((index) => index.get(name))
    return place && this.#readSync(() => this.#reader.textSync(name, place))
  }

  async scan(range: ScanRange): Promise<readonly (readonly [string, string])[]> {
    const { gte, lt, limit, reverse = false } = range
    let [low, high] = [recordName(gte), recordName(lt)]
    const found: [string, string][] = []
    for (;;) {
      const wanted = Math.min(limit - found.length, levelLimits.entriesPerRead)
      const entries = await this.#find((index) => index.range(low, high, wanted, reverse))
      const texts = await this.#read(this.#reader.texts(entries))
      for (const [i, [key]] of entries.entries()) found.push([fromBinary(key.slice(1)), itemAt(texts, i)])
      if (entries.length < wanted || found.length >= limit) return found
      const last = itemAt(entries, -1)[0]
      if (reverse) high = last
      else low = `${last}\0`
      // Small entries are read at once, so a long range would block the event loop.
      await nextTurn()
    }
  }

  async blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined> {
    const key = `b${blobKey(hash)}`
    const place = await this.#find((index) => index.get(key))
    return place && this.#read(this.#reader.blob(key, place, range))
  }

  blobSync(hash: string, range: ByteRange): Uint8Array | undefined {
    const key = `b${blobKey(hash)}`
    const place = this.look((index) => index.get(key))
    return place && this.#readSync(() => this.#reader.blobSync(key, place, range))
  }

  async listBlobs(after: string, limit: number): Promise<readonly StoredBlobSize[]> {
    const from = after === '' ? 'b' : `b${blobKey(after)}\0`
    const entries = await this.#find((index) => index.range(from, 'c', limit, false))
    return entries.map(([key, { length }]) => ({
      hash: Buffer.from(key.slice(1), 'latin1').toString('hex'),
      bytes: blobBytesOf(length),
    }))
  }

  /** The number of the session's newest event, or 0 if it has none. */
  protected async newestSeq(sessionId: string): Promise<number> {
    const last = await this.#find((index) => index.lastEvent(sessionName(sessionId)))
    return last === undefined ? 0 : seqOf(last[0])
  }

  protected async newestEvent(sessionId: string): Promise<EventText | undefined> {
    const last = await this.#find((index) => index.lastEvent(sessionName(sessionId)))
    return last && { seq: seqOf(last[0]), text: await this.#read(this.#reader.text(...last)) }
  }

  /** The first existing events from number `first` to `last`, up to the limits of one read. */
  protected async eventTexts(sessionId: string, first: number, last: number): Promise<EventText[]> {
    const [from, end] = [`e${eventKey(sessionId, first)}`, `e${eventKey(sessionId, last)}\0`]
    const all = await this.#find((index) => index.range(from, end, limits.eventsPerRead, false))
    const entries = all.slice(0, countWithin(all, limits.scannedBytes))
    const texts = await this.#read(this.#reader.texts(entries))
    return entries.map(([key], i) => ({ seq: seqOf(key), text: itemAt(texts, i) }))
  }

  /** As {@link look}. If the index turns out to be damaged, this waits for the repair and tries again. */
  async #find<T>(find: (index: LiveIndex) => T): Promise<T> {
    for (;;) {
      try {
        return this.look(find)
      } catch (error) {
        const repaired = this.whenRepaired(error)
        if (repaired === undefined) throw error
        await repaired
      }
    }
  }

  async #read<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading
    } catch (error) {
      throw this.asReadError(error)
    }
  }

  #readSync<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw this.asReadError(error)
    }
  }
}

/** The number of the first entries that have at most so many bytes together; at least 1. */
function countWithin(entries: readonly (readonly [string, Place])[], most: number): number {
  let bytes = 0
  const over = entries.findIndex(([, { length }]) => (bytes += length) > most)
  return over < 0 ? entries.length : Math.max(1, over)
}

function recordName(key: string): string {
  return `r${toBinary(key)}`
}

function sessionName(sessionId: string): string {
  return `e${toBinary(sessionId)}`
}

function seqOf(key: string): number {
  return decodeSeq(key.slice(-seqWidth))
}
