import type { Steps } from '../base/cooperative.js'
import { compactChanges } from './compact-changes.js'
import { comparedLines } from './compared-lines.js'
import type { LineIds } from './lines.js'
import { findChanges } from './shortest-edit.js'

/** Lines of `a` that lines of `b` replace. Ends are exclusive. One of the two ranges may be empty. */
export interface LineChange {
  readonly aStart: number
  readonly aEnd: number
  readonly bStart: number
  readonly bEnd: number
}

/**
 * The changes from `a` to `b`, in order. An equal line is between two changes. The same input always gives the
 * same changes.
 *
 * The search is that of Myers ("An O(ND) Difference Algorithm and Its Variations", 1986) in linear space. As in
 * git, its cost has a bound, so the changes of very different texts are not always the fewest possible. The
 * choice among equally good changes follows git too, so that a merge gives the same conflicts.
 */
export function* diffLines(a: LineIds, b: LineIds): Steps<LineChange[], undefined> {
  // One further entry, which stays 0, ends the last run.
  const changedA = new Uint8Array(a.length + 1)
  const changedB = new Uint8Array(b.length + 1)
  const sides = yield* comparedLines({ ids: a, changed: changedA }, { ids: b, changed: changedB })
  yield
  yield* findChanges(sides)
  yield* compactChanges({ ids: a, changed: changedA }, changedB)
  yield* compactChanges({ ids: b, changed: changedB }, changedA)
  return changesOf(changedA, changedB)
}

function changesOf(changedA: Uint8Array, changedB: Uint8Array): LineChange[] {
  const changes: LineChange[] = []
  const [aLength, bLength] = [changedA.length - 1, changedB.length - 1]
  let a = 0
  let b = 0
  while (a < aLength || b < bLength) {
    const [aStart, bStart] = [a, b]
    while (changedA[a] === 1) a++
    while (changedB[b] === 1) b++
    if (a > aStart || b > bStart) changes.push({ aStart, aEnd: a, bStart, bEnd: b })
    a++
    b++
  }
  return changes
}
