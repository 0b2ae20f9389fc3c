/**
 * The first index of an ascending list whose value is at least `value`; the length of the list when there is
 * none.
 */
export function firstAtLeast<T extends number | string>(ascending: readonly T[], value: T): number {
  let low = 0
  let high = ascending.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (ascending[middle]! < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether an ascending list has a number from `from` up to, but not including, `to`. */
export function someIn(ascending: readonly number[], from: number, to: number): boolean {
  const first = firstAtLeast(ascending, from)
  return (ascending[first] ?? Number.POSITIVE_INFINITY) < to
}
