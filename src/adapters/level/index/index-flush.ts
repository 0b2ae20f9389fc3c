import { firstAtLeast, itemAt, nextTurn } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import { encodePage, entriesOf, entrySize, pageChecksum } from './index-page.js'
import type { Page } from './index-page.js'
import type { IndexPlace, PageRef, SegmentUse } from './index-root.js'
import { sessionOf } from './memtable.js'
import type { Memtable, Place } from './memtable.js'
import { addToPage } from './page-addition.js'
import type { PageIndex } from './page-index.js'

/**
 * Merges a memtable into the pages, in slices of a few milliseconds, and stores them. Meanwhile, reads use
 * the old pages and the memtable. `hasSegment` finds out which segments still exist; the others are no longer
 * counted.
 */
export async function flushIndex(
  index: PageIndex,
  memtable: Memtable,
  place: IndexPlace,
  options: { readonly sync: boolean; readonly hasSegment: (segment: number) => boolean },
): Promise<void> {
  const merge = new Merge(index, memtable)
  let started = performance.now()
  while (merge.step()) {
    if (merge.waitingBytes >= levelLimits.changedPageBytes) await index.storePages(merge.takePages())
    if (performance.now() - started < levelLimits.sliceMs) continue
    await nextTurn()
    started = performance.now()
  }
  for (const segment of merge.uses.keys()) if (!options.hasSegment(segment)) merge.uses.delete(segment)
  const { storeId } = index.root
  const { nextPage, replaced, uses, refs: pages } = merge
  await index.store(merge.takePages(), { storeId, ...place, nextPage, replaced, uses, pages }, options.sync)
}

class Merge {
  /** The bytes of the new pages that `takePages` has not returned yet. */
  waitingBytes = 0
  #pages = new Map<number, Buffer>()
  readonly refs: PageRef[] = []
  readonly replaced: number[]
  readonly uses: Map<number, SegmentUse>
  nextPage: number
  readonly #index: PageIndex
  readonly #memtable: Memtable
  /** The entries of the memtable. */
  readonly #newer: Page
  /** The key prefixes of deleted sessions, in order. */
  readonly #deleted: readonly string[]
  /** The position of the next entry of the memtable. */
  #entry = 0
  #page = 0

  constructor(index: PageIndex, memtable: Memtable) {
    this.#index = index
    this.#memtable = memtable
    this.#newer = memtable.sorted()
    this.#deleted = [...memtable.deletedSessions.keys()].sort()
    this.nextPage = index.tail.nextPage
    this.replaced = index.tail.deltas.map(({ id }) => id)
    this.uses = new Map([...index.root.uses].map(([segment, use]) => [segment, { ...use }]))
    for (const place of this.#newer.places) if (place.deleted) this.#use(place).deletions += place.length
    for (const place of memtable.deletedSessions.values()) this.#use(place).deletions += place.length
  }

  /** The new pages since the last call. */
  takePages(): ReadonlyMap<number, Buffer> {
    const pages = this.#pages
    this.#pages = new Map()
    this.waitingBytes = 0
    return pages
  }

  /** Processes one page, or a run of small ones. Returns false if nothing is left. */
  step(): boolean {
    const { pages } = this.#index.root
    if (this.#page >= pages.length && this.#entry >= this.#newer.keys.length) return false
    if (this.#addToNext()) return true
    const merged: Page = { keys: [], places: [] }
    let lower: string | undefined
    let size = 0
    do {
      const ref = pages[this.#page++]
      const end = pages[this.#page]?.lower
      if (ref !== undefined && size === 0 && !this.#touches(ref.lower, end)) {
        this.refs.push(ref)
        return true
      }
      lower ??= ref?.lower
      if (ref !== undefined) this.replaced.push(ref.id)
      size += this.#merge(ref === undefined ? undefined : this.#index.decoded(ref), end, merged)
    } while (size < levelLimits.pageBytesMin && this.#page < pages.length)
    this.#write(merged, size, lower)
    return true
  }

  /**
   * Adds entries to the next page without decoding it. Returns false and changes nothing if the page gets no entries, more
   * than `addedToPage`, or a deletion, or if it is so small that it is merged with the page after it.
   */
  #addToNext(): boolean {
    const { pages } = this.#index.root
    const ref = pages[this.#page]
    const from = this.#entry
    if (ref === undefined) return false
    const end = pages[this.#page + 1]?.lower
    if (this.#deletesIn(ref.lower, end)) return false
    const { keys, places } = this.#newer
    let to = from
    for (; to < keys.length && (end === undefined || itemAt(keys, to) < end); to++) {
      if (itemAt(places, to).deleted || to - from >= levelLimits.addedToPage) return false
    }
    const old = to === from ? undefined : this.#index.encoded(ref)
    if (old === undefined || old.length < levelLimits.pageBytesMin) return false
    this.#page++
    this.#entry = to
    this.replaced.push(ref.id)
    const id = this.nextPage
    const { bytes, replaced } = addToPage(old, id, { entries: this.#newer, from, to })
    for (const place of replaced) this.#use(place).live -= place.length
    for (let i = from; i < to; i++) this.#use(itemAt(places, i)).live += itemAt(places, i).length
    const lower = lowest(ref.lower, itemAt(keys, from))
    if (bytes.length > levelLimits.pageBytesMax) this.#write(entriesOf(bytes), bytes.length, lower)
    else this.#keep(this.nextPage++, bytes, lower)
    return true
  }

  /** Whether the memtable changes anything in the page with the keys from `lower` to before `end`. */
  #touches(lower: string, end: string | undefined): boolean {
    const next = this.#newer.keys[this.#entry]
    return (next !== undefined && (end === undefined || next < end)) || this.#deletesIn(lower, end)
  }

  /** Whether the memtable deletes a session that may have events in this page. */
  #deletesIn(lower: string, end: string | undefined): boolean {
    const at = firstAtLeast(this.#deleted, lower)
    const [before, after] = [this.#deleted[at - 1], this.#deleted[at]]
    if (after !== undefined && (end === undefined || after < end)) return true
    return before !== undefined && lower.startsWith(before)
  }

  /**
   * Merges a page with all entries of the memtable below `end`, and appends the result to `merged`. Returns
   * its size.
   */
  #merge(page: Page | undefined, end: string | undefined, merged: Page): number {
    const { keys, places } = merged
    const newer = this.#newer
    let size = 0
    const add = (key: string, place: Place): void => {
      size += entrySize(key, keys.at(-1))
      keys.push(key)
      places.push(place)
    }
    const putNext = (): void => {
      const place = itemAt(newer.places, this.#entry)
      if (!place.deleted) {
        this.#use(place).live += place.length
        add(itemAt(newer.keys, this.#entry), place)
      }
      this.#entry++
    }
    for (let i = 0; page !== undefined; i++) {
      const key = page.keys[i]
      if (key === undefined) break
      const place = itemAt(page.places, i)
      let next = newer.keys[this.#entry]
      for (; next !== undefined && next < key; next = newer.keys[this.#entry]) putNext()
      if (next === key) {
        this.#use(place).live -= place.length
        putNext()
      } else if (key[0] === 'e' && this.#isDeleted(key)) this.#use(place).live -= place.length
      else add(key, place)
    }
    while (this.#entry < newer.keys.length && (end === undefined || itemAt(newer.keys, this.#entry) < end))
      putNext()
    return size
  }

  #isDeleted(key: string): boolean {
    return this.#memtable.deletedSessions.has(sessionOf(key))
  }

  /** Splits the entries into pages of about the wanted size. */
  #write(page: Page, size: number, lower: string | undefined): void {
    const count = page.keys.length
    const parts = size > levelLimits.pageBytesMax ? Math.ceil(size / levelLimits.pageBytes) : 1
    let from = 0
    for (let part = 1; part <= parts && from < count; part++) {
      const to = part === parts ? count : Math.max(from + 1, Math.floor((count * part) / parts))
      const id = this.nextPage++
      const first = itemAt(page.keys, from)
      const start = from === 0 ? lowest(lower, first) : separator(itemAt(page.keys, from - 1), first)
      this.#keep(id, encodePage(id, page, from, to), start)
      from = to
    }
  }

  #keep(id: number, bytes: Buffer, lower: string): void {
    this.#pages.set(id, bytes)
    this.waitingBytes += bytes.length
    this.refs.push({ lower, id, checksum: pageChecksum(bytes) })
  }

  #use({ segment }: Place): SegmentUse {
    let use = this.uses.get(segment)
    if (use === undefined) this.uses.set(segment, (use = { live: 0, deletions: 0 }))
    return use
  }
}

function lowest(lower: string | undefined, first: string): string {
  return lower === undefined || first < lower ? first : lower
}

/** The shortest prefix of `first` that is above `before`. */
function separator(before: string, first: string): string {
  let length = 0
  while (length < before.length && before.charCodeAt(length) === first.charCodeAt(length)) length++
  return first.slice(0, length + 1)
}
