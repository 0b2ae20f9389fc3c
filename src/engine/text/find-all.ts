import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'

/**
 * The positions at which a string occurs in a text, ascending, also overlapping ones unless `apart`. At most `limit`
 * positions. The time is linear in the text: `indexOf` searches where its worst case is short, and the algorithm of
 * Knuth, Morris and Pratt elsewhere.
 */
export function* findAll(
  text: string,
  wanted: string,
  {
    apart = false,
    limit = Number.POSITIVE_INFINITY,
  }: { readonly apart?: boolean; readonly limit?: number } = {},
): Steps<number[], undefined> {
  const found: number[] = []
  if (wanted.length === 0 || wanted.length > text.length) return found
  if (wanted.length * text.length > limits.indexOfComparisons)
    return yield* search(text, wanted, apart, limit)
  const step = apart ? wanted.length : 1
  for (let at = text.indexOf(wanted); at >= 0 && found.length < limit; at = text.indexOf(wanted, at + step)) {
    found.push(at)
    if (found.length % limits.charactersPerLook === 0) yield
  }
  return found
}

function* search(text: string, wanted: string, apart: boolean, limit: number): Steps<number[], undefined> {
  const found: number[] = []
  const borders = bordersOf(wanted)
  let matched = 0
  for (let at = 0; at < text.length && found.length < limit; at++) {
    const code = text.charCodeAt(at)
    while (matched > 0 && wanted.charCodeAt(matched) !== code) matched = itemAt(borders, matched - 1)
    if (wanted.charCodeAt(matched) === code) matched++
    if (matched === wanted.length) {
      found.push(at + 1 - matched)
      matched = apart ? 0 : itemAt(borders, matched - 1)
    }
    if (at % limits.charactersPerLook === 0) yield
  }
  return found
}

/** For each prefix, the length of its longest proper prefix that is also its suffix. */
function bordersOf(wanted: string): Int32Array {
  const borders = new Int32Array(wanted.length)
  let length = 0
  for (let at = 1; at < wanted.length; at++) {
    const code = wanted.charCodeAt(at)
    while (length > 0 && wanted.charCodeAt(length) !== code) length = itemAt(borders, length - 1)
    if (wanted.charCodeAt(length) === code) length++
    borders[at] = length
  }
  return borders
}

/** Like {@link findAll}, for a run of items in a list from a position on, compared by identity. */
export function* findRuns(
  list: readonly number[],
  wanted: readonly number[],
  {
    apart = false,
    limit = Number.POSITIVE_INFINITY,
    from = 0,
  }: { readonly apart?: boolean; readonly limit?: number; readonly from?: number } = {},
): Steps<number[], undefined> {
  const found: number[] = []
  if (wanted.length === 0) return found
  const borders = new Int32Array(wanted.length)
  for (let at = 1, length = 0; at < wanted.length; at++) {
    while (length > 0 && wanted[length] !== wanted[at]) length = itemAt(borders, length - 1)
    if (wanted[length] === wanted[at]) length++
    borders[at] = length
  }
  for (let at = from, matched = 0; at < list.length && found.length < limit; at++) {
    while (matched > 0 && wanted[matched] !== list[at]) matched = itemAt(borders, matched - 1)
    if (wanted[matched] === list[at]) matched++
    if (matched === wanted.length) {
      found.push(at + 1 - matched)
      matched = apart ? 0 : itemAt(borders, matched - 1)
    }
    if (at % limits.charactersPerLook === 0) yield
  }
  return found
}
