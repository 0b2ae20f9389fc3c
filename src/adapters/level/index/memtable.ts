import { present } from '../../../engine/ports.js'
import { SortedKeys } from './sorted-keys.js'
import type { KeyCursor } from './sorted-keys.js'

/** The place of an entry in the segments. */
export interface Place {
  readonly segment: number
  readonly offset: number
  readonly length: number
  /** Whether the entry deletes its key. */
  readonly deleted: boolean
}

const seqWidth = 8

type Space = 'r' | 'e' | 'b'

/** The newest entries by key. The pages of the index do not have them yet. */
export class Memtable {
  /** The entries of each key space. The first letter of a key is its space. */
  readonly #spaces = { r: new Map<string, Place>(), e: new Map<string, Place>(), b: new Map<string, Place>() }
  /** The sessions whose events are all deleted: the prefix of their keys, and the place of the deletion. */
  readonly deletedSessions = new Map<string, Place>()
  /**
   * The keys of the events of each session, unordered, so that the deletion of a session reads only its own, and the key of
   * its newest event.
   */
  readonly #events = new Map<string, { last: string; readonly keys: string[] }>()
  /** The keys of the entries, and of some that were deleted since. */
  readonly #sorted = { r: new SortedKeys(), e: new SortedKeys(), b: new SortedKeys() }

  get size(): number {
    const { r, e, b } = this.#spaces
    return r.size + e.size + b.size + this.deletedSessions.size
  }

  /** The place of the key's entry or deletion. Undefined if the key is not in this table. */
  get(key: string): Place | undefined {
    const place = this.#space(key).get(key)
    if (place !== undefined || this.deletedSessions.size === 0 || key[0] !== 'e') return place
    return this.deletedSessions.get(sessionOf(key))
  }

  set(key: string, place: Place): void {
    const space = this.#space(key)
    const before = space.size
    space.set(key, place)
    if (space.size === before) return
    this.#sorted[key[0] as Space].add(key)
    if (key[0] === 'e') this.#addEvent(key)
  }

  #addEvent(key: string): void {
    const session = sessionOf(key)
    const events = this.#events.get(session)
    if (events === undefined) this.#events.set(session, { last: key, keys: [key] })
    else {
      if (events.last < key) events.last = key
      events.keys.push(key)
    }
  }

  /** Deletes all events of the session. Its keys start with `session`. */
  deleteSession(session: string, place: Place): void {
    this.deletedSessions.set(session, place)
    for (const key of this.#events.get(session)?.keys ?? []) this.#spaces.e.delete(key)
    this.#events.delete(session)
  }

  /** Adds the entries of a newer table. */
  add(newer: Memtable): void {
    for (const [session, place] of newer.deletedSessions) this.deleteSession(session, place)
    for (const space of Object.values(newer.#spaces)) for (const [key, place] of space) this.set(key, place)
  }

  /** The key of the newest event in this table, of the session whose keys start with `session`. */
  lastEvent(session: string): string | undefined {
    return this.#events.get(session)?.last
  }

  /**
   * The keys with from ≤ key < to, in ascending order, or with `reverse` in descending order. `from` and `to`
   * are in one key space. Some of the keys may no longer have an entry. The cursor is valid until the next
   * change.
   */
  keys(from: string, to: string, reverse: boolean): KeyCursor {
    return this.#sorted[from[0] as Space].range(from, to, reverse)
  }

  /** All keys with their places, in the order of the keys, without the deletions of sessions. */
  sorted(): { readonly keys: string[]; readonly places: Place[] } {
    const keys: string[] = []
    const places: Place[] = []
    const { b, e, r } = this.#spaces
    for (const space of [b, e, r]) {
      // Keys alone sort faster than entries with a comparison function.
      for (const key of [...space.keys()].sort()) {
        keys.push(key)
        places.push(present(space.get(key), 'the place of a key'))
      }
    }
    return { keys, places }
  }

  #space(key: string): Map<string, Place> {
    return this.#spaces[key[0] as Space]
  }
}

export function sessionOf(eventKey: string): string {
  return eventKey.slice(0, -seqWidth)
}
