import { itemAt, nextTurn } from '../../../engine/ports.js'
import type { FrameEntry } from '../log/frame.js'
import { flushIndex } from './index-flush.js'
import type { IndexPlace } from './index-root.js'
import { Memtable, sessionOf } from './memtable.js'
import type { Place } from './memtable.js'
import { levelLimits } from '../limits.js'
import type { PageIndex } from './page-index.js'
import { entryKind } from '../log/segment-format.js'

type Found = readonly [key: string, place: Place]

/**
 * The place of the entry of every key, up to the newest commit. Older entries are in pages, newer ones in
 * memory.
 */
export class LiveIndex {
  readonly pages: PageIndex
  /** The end of the newest frame that was applied. */
  place: IndexPlace
  /** The bytes of the frames that were applied since the last flush began. */
  unflushedBytes = 0
  #newest = new Memtable()
  /** The entries of the running flush, or of a failed one. */
  #older: Memtable | undefined
  #flushing: Promise<void> | undefined

  constructor(pages: PageIndex, place: IndexPlace) {
    this.pages = pages
    this.place = place
  }

  get waiting(): number {
    return this.#newest.size
  }

  get flushing(): Promise<void> | undefined {
    return this.#flushing
  }

  /** Adds the entries of a frame that starts at `offset` in the segment. `frame` is the end of the frame. */
  apply(entries: readonly FrameEntry[], frame: IndexPlace, offset: number): void {
    const { segment } = frame
    for (const { kind, key, at, length } of entries) {
      const deleted = kind !== entryKind.put && kind !== entryKind.event && kind !== entryKind.blob
      const place = { segment, offset: offset + at, length, deleted }
      if (kind === entryKind.deleteEvents) this.#newest.deleteSession(key, place)
      else this.#newest.set(key, place)
    }
    this.place = frame
    this.unflushedBytes += frame.offset - offset
  }

  get(key: string): Place | undefined {
    const place = this.#newest.get(key) ?? this.#older?.get(key) ?? this.pages.deltas.get(key)
    if (place !== undefined) return place.deleted ? undefined : place
    return this.pages.get(key)
  }

  /**
   * The entries with from ≤ key < to, at most `limit`. They come in ascending order, or with `reverse` in
   * descending order.
   */
  range(from: string, to: string, limit: number, reverse: boolean): Found[] {
    const newer = this.#newer(from, to, reverse)
    const found: Found[] = []
    let next = newer.next().value
    /** Adds the newer entries before the key, or all of them if the key is undefined. */
    const takeUpTo = (key: string | undefined): void => {
      while (next !== undefined && found.length < limit) {
        if (key !== undefined && (reverse ? next[0] <= key : next[0] >= key)) return
        if (!next[1].deleted) found.push(next)
        next = newer.next().value
      }
    }
    let [low, high] = [from, to]
    while (found.length < limit) {
      const wanted = limit - found.length
      const older = this.pages.range(low, high, wanted, reverse)
      for (const entry of older) {
        takeUpTo(entry[0])
        if (found.length === limit) return found
        if (next?.[0] !== entry[0]) {
          if (!this.#isDeleted(entry[0])) found.push(entry)
          continue
        }
        if (!next[1].deleted) found.push(next)
        next = newer.next().value
      }
      if (older.length < wanted) break
      const last = itemAt(older, -1)[0]
      if (reverse) high = last
      else low = `${last}\0`
    }
    takeUpTo(undefined)
    return found
  }

  /** The newest event of the session whose keys start with `session`. */
  lastEvent(session: string): Found | undefined {
    const keys: (string | undefined)[] = []
    let deleted = false
    for (const table of this.#tables().reverse()) {
      keys.push(table.lastEvent(session))
      deleted = table.deletedSessions.has(session)
      if (deleted) break
    }
    if (!deleted) keys.push(this.pages.range(session, `${session}\x7f`, 1, true)[0]?.[0])
    let last: string | undefined
    for (const key of keys) if (key !== undefined && (last === undefined || key > last)) last = key
    const place = last === undefined ? undefined : this.get(last)
    return last === undefined || place === undefined ? undefined : [last, place]
  }

  /** The memtables with entries that are not in the pages, the oldest first. */
  #tables(): Memtable[] {
    const { deltas } = this.pages
    return this.#older === undefined ? [deltas, this.#newest] : [deltas, this.#older, this.#newest]
  }

  /** Whether a memtable deletes all events of the session that this key belongs to. */
  #isDeleted(key: string): boolean {
    return key[0] === 'e' && this.#tables().some((table) => table.deletedSessions.has(sessionOf(key)))
  }

  /**
   * The entries of all memtables, deletions included. They come in ascending order, or with `reverse` in
   * descending order.
   */
  *#newer(from: string, to: string, reverse: boolean): Generator<Found, undefined> {
    const tables = this.#tables().map((table) => ({ table, keys: table.keys(from, to, reverse) }))
    for (;;) {
      let first: string | undefined
      for (const { keys } of tables) {
        const { key } = keys
        if (key !== undefined && (first === undefined || (reverse ? key > first : key < first))) first = key
      }
      if (first === undefined) return undefined
      let place: Place | undefined
      // Newer tables come later, so the last entry that is found is the newest.
      for (const { table, keys } of tables) {
        if (keys.key === first) keys.next()
        place = table.get(first) ?? place
      }
      if (place !== undefined) yield [first, place]
    }
  }

  /**
   * Stores everything that was applied so far. Flushes run one after the other. If one fails, its entries
   * stay in memory, and every later flush fails too. `ready` is awaited before anything is stored.
   */
  async flush(options: FlushOptions, ready: (place: IndexPlace) => Promise<void>): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing
    if (this.#newest.size === 0 && this.unflushedBytes === 0 && !options.sync) return
    this.#flushing = this.#flush(options, ready)
    await this.#flushing
    this.#flushing = undefined
  }

  async #flush(options: FlushOptions, ready: (place: IndexPlace) => Promise<void>): Promise<void> {
    const { place, pages } = this
    const entries = this.#newest
    this.#newest = new Memtable()
    this.#older = entries
    this.unflushedBytes = 0
    await ready(place)
    const size = pages.deltas.size + entries.size
    const isDue = size >= options.mergeEntries || pages.tail.deltas.length >= levelLimits.deltas
    const merged = options.sync || !pages.hasRoot || isDue
    if (!merged) await pages.storeDelta(entries, place)
    // Now the deltas have these entries too, so reads find no difference.
    if (pages.deltas.size === 0) pages.deltas = entries
    else pages.deltas.add(entries)
    this.#older = undefined
    if (!merged) return
    // After many commits, this and the next step each take milliseconds.
    await nextTurn()
    await flushIndex(pages, pages.deltas, place, options)
  }
}

export interface FlushOptions {
  /** Whether all entries are merged into the pages, and synced. */
  readonly sync: boolean
  /** This many entries, or more, are merged into the pages. Fewer are stored as a delta. */
  readonly mergeEntries: number
  readonly hasSegment: (segment: number) => boolean
}
