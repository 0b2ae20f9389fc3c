import type { TimeSlice } from './cooperative.js'
import { limits } from './limits.js'

/** A sorted copy, like `toSorted`. It leaves the event loop free, as sorting 100,000 paths takes over 100 ms. */
export async function sortedInSlices<T>(
  items: Iterable<T>,
  compare: (a: T, b: T) => number,
  slice: TimeSlice,
): Promise<T[]> {
  let sorted = [...items]
  const { sortedAtOnce } = limits
  for (let from = 0; from < sorted.length; from += sortedAtOnce) {
    const run = sorted.slice(from, from + sortedAtOnce).sort(compare)
    for (let index = 0; index < run.length; index++) sorted[from + index] = run[index] as T
    if (slice.over) await slice.next()
  }
  // Pairs of sorted runs are merged into runs of twice the length.
  for (let length = sortedAtOnce; length < sorted.length; length *= 2) {
    const merged: T[] = []
    for (let from = 0; from < sorted.length; from += 2 * length) {
      const middle = Math.min(from + length, sorted.length)
      const end = Math.min(middle + length, sorted.length)
      for (let left = from, right = middle; left < middle || right < end;) {
        const isLeft = right === end || (left < middle && compare(sorted[left] as T, sorted[right] as T) <= 0)
        merged.push(sorted[isLeft ? left++ : right++] as T)
        if (merged.length % sortedAtOnce === 0 && slice.over) await slice.next()
      }
    }
    sorted = merged
  }
  return sorted
}
