import { SortedKeys } from './sorted-keys.js'
import type { KeyCursor } from './sorted-keys.js'

/** The place of an entry in the segments. */
export interface Place {
  readonly segment: number
  readonly offset: number
  readonly length: number
  /** The entry deletes its key. */
  readonly deleted: boolean
}

const seqWidth = 8

type Space = 'r' | 'e' | 'b'

/** The newest entries, by key, which the pages of the index do not have yet. */
export class Memtable {
  /** By the first letter of the key. */
  readonly #spaces = { r: new Map<string, Place>(), e: new Map<string, Place>(), b: new Map<string, Place>() }
  /** Sessions whose events go: the beginning of their keys, and the deletion. */
  readonly deletedSessions = new Map<string, Place>()
  /** The key of the newest event of each session in here. */
  readonly #lastEvents = new Map<string, string>()
  /** The keys of the events of each session, unordered, so that the deletion of a session reads only its own. */
  readonly #eventKeys = new Map<string, string[]>()
  /** The keys of the entries, and of some that were deleted since. */
  readonly #sorted = { r: new SortedKeys(), e: new SortedKeys(), b: new SortedKeys() }

  get size(): number {
    const { r, e, b } = this.#spaces
    return r.size + e.size + b.size + this.deletedSessions.size
  }

  /** The place of the key, or of its deletion; undefined when the key is not in this table. */
  get(key: string): Place | undefined {
    const place = this.#space(key).get(key)
    if (place !== undefined || this.deletedSessions.size === 0 || key[0] !== 'e') return place
    return this.deletedSessions.get(sessionOf(key))
  }

  set(key: string, place: Place): void {
    if (key[0] === 'e') {
      const session = sessionOf(key)
      const last = this.#lastEvents.get(session)
      if (last === undefined || last < key) this.#lastEvents.set(session, key)
      const known = this.#eventKeys.get(session)
      if (known === undefined) this.#eventKeys.set(session, [key])
      else if (!this.#spaces.e.has(key)) known.push(key)
    }
    const space = this.#space(key)
    if (!space.has(key)) this.#sorted[key[0] as Space].add(key)
    space.set(key, place)
  }

  /** Deletes all events of the session. Its keys start with `session`. */
  deleteSession(session: string, place: Place): void {
    this.deletedSessions.set(session, place)
    if (!this.#lastEvents.delete(session)) return
    for (const key of this.#eventKeys.get(session) ?? []) this.#spaces.e.delete(key)
    this.#eventKeys.delete(session)
  }

  /** Takes over newer entries. */
  add(newer: Memtable): void {
    for (const [session, place] of newer.deletedSessions) this.deleteSession(session, place)
    for (const space of Object.values(newer.#spaces)) for (const [key, place] of space) this.set(key, place)
  }

  /** The key of the newest event in here of the session whose keys begin so. */
  lastEvent(session: string): string | undefined {
    return this.#lastEvents.get(session)
  }

  /**
   * The keys with from ≤ key < to, both of one space, in order or from the last one backwards. Some of them may have no
   * entry any more. The cursor is good until the next change.
   */
  keys(from: string, to: string, reverse: boolean): KeyCursor {
    return this.#sorted[from[0] as Space].range(from, to, reverse)
  }

  /** Everything but the deleted sessions, in order. */
  sorted(): (readonly [key: string, place: Place])[] {
    const { r, e, b } = this.#spaces
    return [...[...b].sort(byKey), ...[...e].sort(byKey), ...[...r].sort(byKey)]
  }

  #space(key: string): Map<string, Place> {
    return this.#spaces[key[0] as Space]
  }
}

export function sessionOf(eventKey: string): string {
  return eventKey.slice(0, -seqWidth)
}

function byKey(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : 1
}
