/** Chooses the lines that are worth comparing. */
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
export function comparedLines(a: Side, b: Side): ComparedSides {
  const shorter = Math.min(a.ids.length, b.ids.length)
  let start = 0
  while (start < shorter && a.ids[start] === b.ids[start]) start++
  let tail = 0
  while (tail < shorter - start && a.ids[a.ids.length - 1 - tail] === b.ids[b.ids.length - 1 - tail]) tail++
  const [countsA, countsB] = [countLines(a.ids), countLines(b.ids)]
  return {
    a: select(a, occurrences(a, { start, tail, counts: countsB }), start),
    b: select(b, occurrences(b, { start, tail, counts: countsA }), start),
  }
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
  const positions: number[] = []
  for (let i = 0; i < found.length; i++) {
    const kept = found[i] === occurs.sometimes || (found[i] === occurs.often && !isNoise(found, i))
    if (kept) positions.push(start + i)
    else side.changed[start + i] = 1
  }
  const ids = new Int32Array(positions.length)
  for (const [index, position] of positions.entries()) ids[index] = itemAt(side.ids, position)
  return { ids, positions: Int32Array.from(positions), changed: side.changed }
}

/** Whether a frequent line has unmatched lines on both sides of it, which greatly outnumber the frequent ones. */
function isNoise(found: Uint8Array, index: number): boolean {
  const before = runFrom(found, index, -1)
  if (before.never === 0) return false
  const after = runFrom(found, index, 1)
  if (after.never === 0) return false
  const often = before.often + after.often
  return often * frequentShare < often + before.never + after.never
}

/** Counts the lines from a frequent one on, itself included, up to the next line that occurs sometimes. */
function runFrom(found: Uint8Array, index: number, step: 1 | -1): { never: number; often: number } {
  const run = { never: 0, often: 1 }
  for (let distance = 1; distance <= limits.frequentLineWindow; distance++) {
    const one = found[index + step * distance]
    if (one === occurs.never) run.never++
    else if (one === occurs.often) run.often++
    else break
  }
  return run
}

/** A power of two near the square root of a number, at least that. */
export function roughRoot(value: number): number {
  let root = 1
  for (let rest = value; rest > 0; rest >>>= 2) root <<= 1
  return root
}
