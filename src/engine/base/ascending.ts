import { present } from './present.js'

/** The first index whose item fits, in a list where all items after it fit too; its length when none does. */
export function firstWhere<T>(list: readonly T[], fits: (item: T) => boolean): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (fits(present(list[middle], 'an item of an ascending list'))) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * The first index of an ascending list whose value is at least `value`; the length of the list when there is
 * none.
 */
export function firstAtLeast<T extends number | string>(ascending: readonly T[], value: T): number {
  let low = 0
  let high = ascending.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (present(ascending[middle], 'an item of an ascending list') < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether an ascending list has a number from `from` up to, but not including, `to`. */
export function someIn(ascending: readonly number[], from: number, to: number): boolean {
  const first = firstAtLeast(ascending, from)
  return (ascending[first] ?? Number.POSITIVE_INFINITY) < to
}
