import { itemAt } from '../../../engine/ports.js'
import {
  countOf,
  EntryReader,
  finishPage,
  pageHeadBytes,
  pageMemory,
  sharedLength,
  writeKey,
  writeNumber,
  writePlace,
} from './index-page.js'
import type { Page } from './index-page.js'
import type { Place } from './memtable.js'

/** New entries of one page, in the order of their keys: those of `entries` from `from` to before `to`. None is a deletion. */
export interface Addition {
  readonly entries: Page
  readonly from: number
  readonly to: number
}

export interface EnlargedPage {
  readonly bytes: Buffer
  /** The places that the additions replace. */
  readonly replaced: readonly Place[]
}

/**
 * Adds entries to an encoded page. A key that the page has already gets the new place.
 *
 * Most entries of a page stay as they are, so their bytes are copied without decoding. Keys are in order, and each lacks
 * the prefix that it shares with the key before it. So an added key changes only the entry after it, which may then share
 * more. The lengths of shared prefixes also show whether an entry is below an added key. So most entries need no comparison,
 * as in `StoredPage.get`.
 */
export function addToPage(old: Buffer, id: number, { entries, from, to }: Addition): EnlargedPage {
  const { keys, places } = entries
  const bytes = pageMemory(keys, { from, to, others: old.length })
  const reader = new EntryReader(old, pageHeadBytes, '')
  const replaced: Place[] = []
  const oldCount = countOf(old)
  /** The next entry to add. */
  let next = from
  /** The characters that its key shares with the last entry of the page that is below it. */
  let matched = 0
  /** The key that was added last, if no entry of the page follows it yet. */
  let added: string | undefined
  /** The bytes of the page before this offset are written. */
  let copied = pageHeadBytes
  let at = pageHeadBytes

  const copyUpTo = (end: number): void => {
    // Most runs are long. A call of `set` would make a view of each.
    at += old.copy(bytes, at, copied, end)
    copied = end
  }
  const addNext = (): void => {
    const key = itemAt(keys, next)
    at = writeKey(bytes, key, added === undefined ? matched : sharedLength(key, added), at)
    at = writePlace(bytes, itemAt(places, next), at)
    added = key
    next++
    // Of three keys in order, the first and the last share the shorter of the prefixes that the middle one shares with them.
    if (next < to) matched = Math.min(matched, sharedLength(key, itemAt(keys, next)))
  }

  for (let left = oldCount; left > 0 && next < to; left--) {
    const start = reader.at
    const shared = reader.nextNumber()
    const end = reader.nextNumber() + reader.at
    const rest = reader.at
    /** The characters that the entry shares with the key that was added last. */
    let sharedWithAdded = shared
    let isReplaced = false
    while (next < to) {
      // An entry that shares more with the one before it than the key does is below the key too. One that shares less is above.
      if (shared > matched) break
      const key = itemAt(keys, next)
      let same = shared
      if (shared === matched) {
        let byte = rest
        while (byte < end && old[byte] === key.charCodeAt(same)) {
          byte++
          same++
        }
        isReplaced = byte === end && same === key.length
        if (isReplaced) break
        const isBelow = byte === end || (same < key.length && (old[byte] ?? 0) < key.charCodeAt(same))
        if (isBelow) {
          matched = same
          break
        }
      }
      copyUpTo(start)
      addNext()
      sharedWithAdded = same
    }
    reader.at = end
    if (added !== undefined) {
      at = writeNumber(bytes, sharedWithAdded, at)
      at = writeNumber(bytes, end - rest - (sharedWithAdded - shared), at)
      copied = rest + sharedWithAdded - shared
      added = undefined
    }
    if (!isReplaced) {
      reader.skipPlace()
      continue
    }
    copyUpTo(end)
    replaced.push(reader.nextPlace())
    copied = reader.at
    at = writePlace(bytes, itemAt(places, next), at)
    const key = itemAt(keys, next++)
    if (next < to) matched = sharedLength(key, itemAt(keys, next))
  }
  copyUpTo(old.length)
  while (next < to) addNext()
  return {
    bytes: finishPage(bytes, { id, count: oldCount + (to - from) - replaced.length, end: at }),
    replaced,
  }
}
