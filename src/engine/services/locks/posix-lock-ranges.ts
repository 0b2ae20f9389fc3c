import { firstWhere } from '../../base/ascending.js'
import { itemAt } from '../../base/present.js'
/** Locks on ranges: conflicts, and the locks of an owner after a change. */

export type LockKind = 'shared' | 'exclusive'

/** The end of every file. A range that ends here has no end. */
export const endOfRanges = 1n << 63n

/** Owners with equal keys are the same owner. Other fields are information only. */
export interface LockOwner {
  readonly key: string
}

/** The range includes `start`, but not `end`. */
export interface LockRange {
  readonly start: bigint
  readonly end: bigint
}

export const everything: LockRange = { start: 0n, end: endOfRanges }

/** A lock that is held or requested. */
export interface Lock<Owner extends LockOwner> extends LockRange {
  readonly kind: LockKind
  readonly owner: Owner
}

export function overlap(a: LockRange, b: LockRange): boolean {
  return a.start < b.end && b.start < a.end
}

export function conflicts<Owner extends LockOwner>(a: Lock<Owner>, b: Lock<Owner>): boolean {
  return (a.kind === 'exclusive' || b.kind === 'exclusive') && a.owner.key !== b.owner.key && overlap(a, b)
}

/** For each other owner, the first lock that conflicts with the request. */
export function* conflictsWithHeld<Owner extends LockOwner>(
  held: ReadonlyMap<string, readonly Lock<Owner>[]>,
  request: Lock<Owner>,
): Generator<Lock<Owner>> {
  for (const [owner, locks] of held) {
    if (owner === request.owner.key) continue
    const lock = firstConflict(locks, request)
    if (lock !== undefined) yield lock
  }
}

export function firstConflict<Owner extends LockOwner>(
  locks: readonly Lock<Owner>[],
  request: Lock<Owner>,
): Lock<Owner> | undefined {
  if (itemAt(locks, 0).start >= request.end || itemAt(locks, -1).end <= request.start) return undefined
  for (let i = firstEndingAfter(locks, request.start); i < locks.length; i++) {
    const lock = locks[i]
    if (lock === undefined || lock.start >= request.end) return undefined
    if (conflicts(lock, request)) return lock
  }
  return undefined
}

function firstEndingAfter(locks: readonly LockRange[], offset: bigint): number {
  return firstWhere(locks, ({ end }) => end > offset)
}

/** The locks of an owner after it sets a lock, or, if `lock` is undefined, releases a range. */
export function replaced<Owner extends LockOwner>(
  locks: readonly Lock<Owner>[],
  { start, end }: LockRange,
  lock: Lock<Owner> | undefined,
): readonly Lock<Owner>[] {
  // The locks that overlap the range or touch it.
  const from = firstEndingAfter(locks, start - 1n)
  const to = firstWhere(locks, (one) => one.start > end)
  const near = locks.slice(from, to)
  const before = near.filter((one) => one.start < start)
  const after = near.filter((one) => one.end > end)
  const pieces = [
    ...before.map((one) => (one.end > start ? { ...one, end: start } : one)),
    ...(lock === undefined ? [] : [{ start, end, kind: lock.kind, owner: lock.owner }]),
    ...after.map((one) => (one.start < end ? { ...one, start: end } : one)),
  ]
  const merged: Lock<Owner>[] = []
  for (const piece of pieces) {
    const last = merged.at(-1)
    if (last === undefined || last.kind !== piece.kind || last.end !== piece.start) merged.push(piece)
    // The merged lock has the owner object of the latest request.
    else merged[merged.length - 1] = { ...last, end: piece.end, owner: (lock ?? piece).owner }
  }
  return [...locks.slice(0, from), ...merged, ...locks.slice(to)]
}
