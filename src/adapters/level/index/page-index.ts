import { EngineError, itemAt } from '../../../engine/ports.js'
import { readError } from '../errors.js'
import { levelLimits } from '../limits.js'
import type { IndexDatabase, IndexOperation } from './index-database.js'
import { decodePage, encodePage, entriesOf, isPage, pageChecksum, StoredPage } from './index-page.js'
import type { Page } from './index-page.js'
import { checksumOf, decodeRoot, decodeTail, encodeRoot, encodeTail } from './index-root.js'
import type { IndexPlace, IndexRoot, IndexTail, PageRef, SegmentUse } from './index-root.js'
import { Memtable } from './memtable.js'
import type { Place } from './memtable.js'
import { asBuffer } from '../log/segment-format.js'

const rootKey = 'root'
const tailKey = 'tail'
/** Used as the checksum of a root that was not stored yet. */
const noRoot = 0

/**
 * The place of the entry of every key, as of one place in the segments. Keys are in pages, and pages are in
 * the database. The list of pages is in memory, with a checksum of each. So every page that is damaged,
 * missing or outdated is detected when it is read.
 */
export class PageIndex {
  readonly db: IndexDatabase
  root: IndexRoot
  tail: IndexTail
  /** Entries in the database that are not in the pages yet. Reads check them before the pages. */
  deltas = new Memtable()
  /** Pages of an earlier process that ended before it stored their root. The next batch removes them. */
  #rootless: number[] = []
  /** Pages by their ids, which are never reused. */
  readonly #cache = new Map<number, StoredPage>()

  private constructor(db: IndexDatabase, root: IndexRoot, checksum: number) {
    this.db = db
    this.root = root
    this.tail = tailOf(root, checksum)
  }

  /** Loads the index. Undefined if the database has none, or a damaged root. */
  static load(db: IndexDatabase): PageIndex | undefined {
    const bytes = readOrNothing(db, rootKey)
    const root = bytes && decodeRoot(bytes)
    if (bytes === undefined || root === undefined) return undefined
    const index = new PageIndex(db, root, checksumOf(bytes))
    index.#loadTail()
    for (let id = index.tail.nextPage; readOrNothing(db, pageKey(id)) !== undefined; id++)
      index.#rootless.push(id)
    return index
  }

  static empty(db: IndexDatabase, place: Pick<IndexRoot, 'storeId' | 'segment' | 'offset'>): PageIndex {
    const uses = new Map<number, SegmentUse>()
    const root = { ...place, commit: 0, chain: 0, nextPage: 1, replaced: [], uses, pages: [] }
    return new PageIndex(db, root, noRoot)
  }

  get(key: string): Place | undefined {
    const ref = this.root.pages[this.find(key)]
    if (ref === undefined) return undefined
    return this.#page(ref).get(key)
  }

  /** The position in the list of the only page that can have the key, or -1 if the key is below all pages. */
  find(key: string): number {
    const { pages } = this.root
    let low = 0
    let high = pages.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (pages[middle]!.lower <= key) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  /**
   * The entries with from ≤ key < to, at most `limit`. They come in ascending order, or with `reverse` in
   * descending order.
   */
  range(from: string, to: string, limit: number, reverse: boolean): (readonly [key: string, place: Place])[] {
    const found: (readonly [string, Place])[] = []
    const { pages } = this.root
    const step = reverse ? -1 : 1
    // In reverse, the first page may start at `to`. Then it has no key of the range.
    for (let i = Math.max(0, this.find(reverse ? to : from)); i >= 0 && i < pages.length; i += step) {
      const page = itemAt(pages, i)
      if (found.length >= limit || (!reverse && page.lower >= to)) break
      this.#page(page).appendRange({ from, to, reverse }, found, limit)
      if (reverse && page.lower < from) break
    }
    return found
  }

  /** @throws EngineError `DATA_LOSS` when the page is damaged. */
  decoded(ref: PageRef): Page {
    return entriesOf(this.encoded(ref))
  }

  /** @throws EngineError `DATA_LOSS` when the page is damaged. */
  encoded(ref: PageRef): Buffer {
    const known = this.#cache.get(ref.id)
    if (known !== undefined) return known.bytes
    // The page is about to be replaced, so it is not cached.
    const stored = this.#read(pageKey(ref.id))
    const bytes = stored && asBuffer(stored)
    if (bytes === undefined || !isPage(bytes, ref.id, ref.checksum)) throw damagedIndex()
    return bytes
  }

  #page(ref: PageRef): StoredPage {
    const known = this.#cache.get(ref.id)
    if (known !== undefined) return known
    const page = this.#open(ref)
    const [oldest] = this.#cache.keys()
    if (oldest !== undefined && this.#cache.size >= levelLimits.cachedPages) this.#cache.delete(oldest)
    this.#cache.set(ref.id, page)
    return page
  }

  #open(ref: PageRef): StoredPage {
    const bytes = this.#read(pageKey(ref.id))
    const page = bytes && StoredPage.open(asBuffer(bytes), ref.id, ref.checksum)
    if (page === undefined) throw damagedIndex()
    return page
  }

  #read(key: string): Uint8Array | undefined {
    try {
      return this.db.getSync(key)
    } catch (error) {
      const known = readError(error)
      throw known.reason === 'DATA_LOSS' ? damagedIndex({ cause: error }) : known
    }
  }

  /** Whether the database has a root. Without one, the next opening cannot find any delta. */
  get hasRoot(): boolean {
    return this.tail.root !== noRoot
  }

  /**
   * Stores entries as a delta and leaves the pages unchanged. The tail records the place up to which the
   * deltas are complete.
   */
  async storeDelta(entries: Memtable, place: IndexPlace): Promise<void> {
    const id = this.tail.nextPage
    const page = deltaPage(entries)
    const value = encodePage(id, page, 0, page.keys.length)
    const delta = { id, checksum: pageChecksum(value) }
    const { root, deltas } = this.tail
    const tail: IndexTail = { root, ...placeOf(place), nextPage: id + 1, deltas: [...deltas, delta] }
    await this.#batch([putOf(pageKey(id), value), putOf(tailKey, encodeTail(tail))], false)
    this.tail = tail
  }

  /**
   * Stores pages before the root that refers to them. Their ids continue from the last ones without a gap. So
   * if the process ends before it stores the root, the next opening finds these pages.
   */
  async storePages(pages: ReadonlyMap<number, Buffer>): Promise<void> {
    await this.#batch(
      Array.from(pages, ([id, value]) => putOf(pageKey(id), value)),
      false,
    )
  }

  /**
   * Stores pages and a new root in one batch. The root refers to these pages, and to pages stored earlier.
   * The deltas are then empty.
   */
  async store(pages: ReadonlyMap<number, Buffer>, root: IndexRoot, sync: boolean): Promise<void> {
    const operations: IndexOperation[] = [{ type: 'del', key: tailKey }]
    for (const id of this.root.replaced) operations.push({ type: 'del', key: pageKey(id) })
    for (const [id, value] of pages) operations.push(putOf(pageKey(id), value))
    const bytes = encodeRoot(root)
    operations.push(putOf(rootKey, bytes))
    await this.#batch(operations, sync)
    for (const id of root.replaced) this.#cache.delete(id)
    this.root = root
    this.tail = tailOf(root, checksumOf(bytes))
    this.deltas = new Memtable()
  }

  async #batch(operations: readonly IndexOperation[], sync: boolean): Promise<void> {
    const removed = this.#rootless.map((id): IndexOperation => ({ type: 'del', key: pageKey(id) }))
    await this.db.batch([...removed, ...operations], { sync })
    this.#rootless = []
  }

  /** Loads the tail and its deltas. If any of them is damaged, the index is complete only up to its root. */
  #loadTail(): void {
    const bytes = readOrNothing(this.db, tailKey)
    const tail = bytes && decodeTail(bytes, this.tail.root)
    if (tail === undefined) return
    const deltas = new Memtable()
    for (const { id, checksum } of tail.deltas) {
      const value = readOrNothing(this.db, pageKey(id))
      const page = value && decodePage(value, id, checksum)
      if (page === undefined) return
      addDelta(deltas, page)
    }
    this.tail = tail
    this.deltas = deltas
  }

  /** Makes the next opening rebuild the index. */
  async forget(): Promise<void> {
    await this.db.batch([{ type: 'del', key: rootKey }], { sync: true })
  }
}

/** Encodes deletions of sessions first, then the other entries. The letter `d` marks these deletions. */
function deltaPage(entries: Memtable): Page {
  const sessions = [...entries.deletedSessions.keys()].map((session) => `d${session.slice(1)}`)
  const { keys, places } = entries.sorted()
  return { keys: [...sessions, ...keys], places: [...entries.deletedSessions.values(), ...places] }
}

function addDelta(deltas: Memtable, { keys, places }: Page): void {
  for (const [i, key] of keys.entries()) {
    const place = itemAt(places, i)
    if (key[0] === 'd') deltas.deleteSession(`e${key.slice(1)}`, place)
    else deltas.set(key, place)
  }
}

function tailOf(root: IndexRoot, checksum: number): IndexTail {
  return { root: checksum, ...placeOf(root), nextPage: root.nextPage, deltas: [] }
}

export function placeOf({ segment, offset, commit, chain }: IndexPlace): IndexPlace {
  return { segment, offset, commit, chain }
}

function putOf(key: string, value: Uint8Array): IndexOperation {
  return { type: 'put', key, value }
}

function readOrNothing(db: IndexDatabase, key: string): Buffer | undefined {
  try {
    const bytes = db.getSync(key)
    return bytes && asBuffer(bytes)
  } catch {
    return undefined
  }
}

function pageKey(id: number): string {
  return `p${id.toString(36).padStart(10, '0')}`
}

export function damagedIndex(options?: ErrorOptions): EngineError {
  const message =
    'index/pages is damaged. Try again, or reopen the store: the index is rebuilt from the segments'
  return new EngineError('DATA_LOSS', message, { damaged: 'index' }, options)
}
