/** Chooses the lines that are worth comparing. */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'
import type { LineIds } from './lines.js'

/** The lines of one side. `changed` has a 1 for each changed line, and one further entry, which stays 0. */
export interface Side {
  readonly ids: LineIds
  readonly changed: Uint8Array
}

/** The compared lines of one side, with their positions among all of its lines. */
export interface ComparedSide {
  readonly ids: LineIds
  readonly positions: Int32Array
  readonly changed: Uint8Array
}

export interface ComparedSides {
  readonly a: ComparedSide
  readonly b: ComparedSide
}

/** How many lines of the other side equal a line: none, some, or so many that its partner says little. */
const occurs = { never: 0, sometimes: 1, often: 2 } as const

/** A frequent line is left out if fewer than one of this many lines around it are frequent. */
const frequentShare = 4

/**
 * Leaves out equal lines at both ends. Also leaves out, and marks as changed, the lines that the other side
 * does not have, and frequent lines among many of those. They would only prolong the search.
 */
export function* comparedLines(a: Side, b: Side): Steps<ComparedSides, undefined> {
  const shorter = Math.min(a.ids.length, b.ids.length)
  let start = 0
  while (start < shorter && a.ids[start] === b.ids[start]) start++
  let tail = 0
  while (tail < shorter - start && a.ids[a.ids.length - 1 - tail] === b.ids[b.ids.length - 1 - tail]) tail++
  const [countsA, countsB] = [countLines(a.ids), countLines(b.ids)]
  yield
  const comparedA = select(a, occurrences(a, { start, tail, counts: countsB }), start)
  yield
  return { a: comparedA, b: select(b, occurrences(b, { start, tail, counts: countsA }), start) }
}

function countLines(ids: LineIds): Int32Array {
  let highest = -1
  for (const id of ids) if (id > highest) highest = id
  const counts = new Int32Array(highest + 1)
  for (const id of ids) counts[id] = itemAt(counts, id) + 1
  return counts
}

/** How often each line between the equal ends occurs on the other side, whose lines are counted. */
function occurrences(
  { ids }: Side,
  { start, tail, counts }: { start: number; tail: number; counts: Int32Array },
): Uint8Array {
  const frequent = Math.min(roughRoot(ids.length), limits.frequentLineCount)
  const found = new Uint8Array(ids.length - tail - start)
  for (let i = 0; i < found.length; i++) {
    const count = counts[itemAt(ids, start + i)] ?? 0
    found[i] = count === 0 ? occurs.never : count >= frequent ? occurs.often : occurs.sometimes
  }
  return found
}

function select(side: Side, found: Uint8Array, start: number): ComparedSide {
  const ids = new Int32Array(found.length)
  const positions = new Int32Array(found.length)
  let count = 0
  const noise = new Noise(found)
  for (let i = 0; i < found.length; i++) {
    const kept = found[i] === occurs.sometimes || (found[i] === occurs.often && !noise.has(i))
    if (!kept) {
      side.changed[start + i] = 1
      continue
    }
    ids[count] = itemAt(side.ids, start + i)
    positions[count++] = start + i
  }
  return { ids: ids.subarray(0, count), positions: positions.subarray(0, count), changed: side.changed }
}

/** Finds the frequent lines that have unmatched lines on both sides of them, which greatly outnumber the frequent ones. */
class Noise {
  /** How many lines before each index never occur on the other side. */
  readonly #neverBefore: Int32Array
  /** The nearest index before and after each line, itself included, of a line that occurs sometimes. */
  readonly #sometimesBefore: Int32Array
  readonly #sometimesAfter: Int32Array

  constructor(found: Uint8Array) {
    const { length } = found
    this.#neverBefore = new Int32Array(length + 1)
    this.#sometimesBefore = new Int32Array(length)
    this.#sometimesAfter = new Int32Array(length)
    for (let i = 0, never = 0, last = -1; i < length; i++) {
      if (found[i] === occurs.never) never++
      if (found[i] === occurs.sometimes) last = i
      this.#neverBefore[i + 1] = never
      this.#sometimesBefore[i] = last
    }
    for (let i = length - 1, next = length; i >= 0; i--) {
      if (found[i] === occurs.sometimes) next = i
      this.#sometimesAfter[i] = next
    }
  }

  /** Whether the frequent line at an index is noise. Looks as far as the next line that occurs sometimes. */
  has(index: number): boolean {
    const first = Math.max(itemAt(this.#sometimesBefore, index) + 1, index - limits.frequentLineWindow)
    const end = Math.min(itemAt(this.#sometimesAfter, index), index + limits.frequentLineWindow + 1)
    const neverBefore = this.#never(first, index)
    const neverAfter = this.#never(index, end)
    if (neverBefore === 0 || neverAfter === 0) return false
    const never = neverBefore + neverAfter
    // The line counts once on each side.
    const often = end - first + 1 - never
    return often * frequentShare < often + never
  }

  #never(start: number, end: number): number {
    return itemAt(this.#neverBefore, end) - itemAt(this.#neverBefore, start)
  }
}

/** A power of two near the square root of a number, at least that. */
export function roughRoot(value: number): number {
  let root = 1
  for (let rest = value; rest > 0; rest >>>= 2) root <<= 1
  return root
}
