import { limits } from './limits.js'
import { itemAt } from './present.js'

/** The known name that a mistyped one probably means; undefined when none is close. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  if (name.length > limits.comparedNameLength) return undefined
  const typed = name.toLowerCase()
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of known) {
    const distance = distanceBetween(typed, candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/**
 * The number of edits between two names if they are few. Otherwise, if one name contains the other, the
 * length of the longer one, and if not, infinity.
 */
function distanceBetween(typed: string, candidate: string): number {
  const edits = countEdits(typed, candidate)
  if (edits <= Math.max(1, Math.floor(typed.length / 3))) return edits
  const [shorter, longer] =
    typed.length < candidate.length ? ([typed, candidate] as const) : ([candidate, typed] as const)
  return shorter.length >= 3 && longer.includes(shorter) ? longer.length : Number.POSITIVE_INFINITY
}

/** Insertions, deletions, replacements, and swaps of two neighbours (optimal string alignment). */
function countEdits(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let edits = Math.min(itemAt(last, j) + 1, itemAt(row, j - 1) + 1, itemAt(last, j - 1) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        edits = Math.min(edits, itemAt(beforeLast, j - 2) + 1)
      row.push(edits)
    }
    beforeLast = last
    last = row
  }
  return itemAt(last, -1)
}
