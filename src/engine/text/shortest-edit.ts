/** Finds the changed lines of two sides: the search of Myers in linear space, with a bound of its cost. */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'
import { roughRoot, type ComparedSide, type ComparedSides } from './compared-lines.js'

/** A part of both sides. `exact`: the cost of its search has no bound, because an earlier search bounds it. */
interface Box {
  aStart: number
  aEnd: number
  bStart: number
  bEnd: number
  readonly exact: boolean
}

/** A position on a path through a box, and which of the two boxes around it the search went through. */
interface Split {
  readonly a: number
  readonly b: number
  readonly exactBefore: boolean
  readonly exactAfter: boolean
}

/** A position that a search reached. */
interface Reached {
  readonly a: number
  readonly b: number
}

/** Marks the changed lines. */
export function* findChanges(sides: ComparedSides): Steps<void, undefined> {
  const search = new Search(sides)
  const { a, b } = sides
  const boxes: Box[] = [{ aStart: 0, aEnd: a.ids.length, bStart: 0, bEnd: b.ids.length, exact: false }]
  for (let box = boxes.pop(); box !== undefined; box = boxes.pop()) {
    trim(box, sides)
    if (box.aStart === box.aEnd) mark(b, box.bStart, box.bEnd)
    else if (box.bStart === box.bEnd) mark(a, box.aStart, box.aEnd)
    else {
      const split = search.split(box)
      yield
      if (split === undefined) {
        mark(a, box.aStart, box.aEnd)
        mark(b, box.bStart, box.bEnd)
        continue
      }
      boxes.push({ ...box, aStart: split.a, bStart: split.b, exact: split.exactAfter })
      boxes.push({ ...box, aEnd: split.a, bEnd: split.b, exact: split.exactBefore })
    }
  }
}

/** Takes equal lines at both ends out of a box. */
function trim(box: Box, { a, b }: ComparedSides): void {
  while (box.aStart < box.aEnd && box.bStart < box.bEnd && a.ids[box.aStart] === b.ids[box.bStart]) {
    box.aStart++
    box.bStart++
  }
  while (box.aStart < box.aEnd && box.bStart < box.bEnd && a.ids[box.aEnd - 1] === b.ids[box.bEnd - 1]) {
    box.aEnd--
    box.bEnd--
  }
}

function mark({ positions, changed }: ComparedSide, start: number, end: number): void {
  for (let i = start; i < end; i++) changed[itemAt(positions, i)] = 1
}

/** Beyond the end of each side: the value of a diagonal that the search from the end did not reach. */
const unreached = 0x7f_ff_ff_ff

/**
 * The diagonals that a search reached after some number of edits. Diagonal `k` has the positions with
 * `a - b = k`. `reached[k + offset]` is the `a` of the furthest one.
 */
class Frontier {
  readonly reached: Int32Array
  readonly offset: number
  low = 0
  high = 0

  constructor(aLength: number, bLength: number) {
    this.reached = new Int32Array(aLength + bLength + 3)
    this.offset = bLength + 1
  }

  at(diagonal: number): number {
    return itemAt(this.reached, diagonal + this.offset)
  }

  begin(diagonal: number, a: number): void {
    this.low = diagonal
    this.high = diagonal
    this.reached[diagonal + this.offset] = a
  }

  /** Prepares one more edit: the diagonals next to those reached, within a box. */
  widen({ aStart, aEnd, bStart, bEnd }: Box, unreachedValue: number): void {
    if (this.low > aStart - bEnd) this.reached[--this.low - 1 + this.offset] = unreachedValue
    else this.low++
    if (this.high < aEnd - bStart) this.reached[++this.high + 1 + this.offset] = unreachedValue
    else this.high--
  }
}

class Search {
  readonly #a: Int32Array
  readonly #b: Int32Array
  readonly #forward: Frontier
  readonly #backward: Frontier
  readonly #mostEdits: number
  #steps: number = limits.diffSteps

  constructor({ a, b }: ComparedSides) {
    this.#a = a.ids
    this.#b = b.ids
    this.#forward = new Frontier(a.ids.length, b.ids.length)
    this.#backward = new Frontier(a.ids.length, b.ids.length)
    this.#mostEdits = Math.max(roughRoot(a.ids.length + b.ids.length + 3), limits.diffEditsAtLeast)
  }

  /**
   * Finds a position on a path with few edits, by a search from each end of the box until both meet. After too
   * many edits, it takes the furthest position that a search reached. Undefined when all steps of this diff
   * are used up.
   */
  split(box: Box): Split | undefined {
    const first = box.aStart - box.bStart
    const last = box.aEnd - box.bEnd
    // Only on one of the two searches can the paths meet, by the parity of the difference in length.
    const meetsForward = ((first - last) & 1) !== 0
    this.#forward.begin(first, box.aStart)
    this.#backward.begin(last, box.aEnd)
    const mostEdits = this.#patience()
    for (let edits = 1; this.#steps > 0; edits++) {
      const forward = this.#advance(box, meetsForward)
      if (typeof forward === 'object') return { ...forward, exactBefore: true, exactAfter: true }
      const backward = this.#retreat(box, !meetsForward)
      if (typeof backward === 'object') return { ...backward, exactBefore: true, exactAfter: true }
      if (box.exact) continue
      if (edits > limits.diffEditsBeforeSampling && (forward || backward)) {
        const sample = this.#sample(box, edits)
        if (sample !== undefined) return sample
      }
      if (edits >= mostEdits) return this.#furthest(box)
    }
    return undefined
  }

  /** The number of edits after which a search stops with its best path so far. It decreases in the second half of the steps. */
  #patience(): number {
    const share = Math.min(this.#steps / (limits.diffSteps / 2), 1)
    return Math.max(Math.floor(this.#mostEdits * share), limits.diffEditsAtEnd)
  }

  /** One more edit from the start. Returns where the searches met, or whether there was a long equal run. */
  #advance(box: Box, mayMeet: boolean): Reached | boolean {
    const [from, other, a, b] = [this.#forward, this.#backward, this.#a, this.#b]
    const { reached, offset } = from
    const { aEnd, bEnd } = box
    const longRunOver = limits.diffLongRun
    let longRun = false
    let steps = 0
    from.widen(box, -1)
    for (let k = from.high; k >= from.low; k -= 2) {
      // Read directly, because this loop is nearly all of the work of a diff.
      const left = reached[k - 1 + offset] ?? -1
      const right = reached[k + 1 + offset] ?? -1
      const start = left >= right ? left + 1 : right
      let at = start
      while (at < aEnd && at - k < bEnd && a[at] === b[at - k]) at++
      if (at - start > longRunOver) longRun = true
      steps += at - start + 1
      reached[k + offset] = at
      if (mayMeet && other.low <= k && k <= other.high && other.at(k) <= at) return { a: at, b: at - k }
    }
    this.#steps -= steps
    return longRun
  }

  /** One more edit from the end. */
  #retreat(box: Box, mayMeet: boolean): Reached | boolean {
    const [from, other, a, b] = [this.#backward, this.#forward, this.#a, this.#b]
    const { reached, offset } = from
    const { aStart, bStart } = box
    const longRunOver = limits.diffLongRun
    let longRun = false
    let steps = 0
    from.widen(box, unreached)
    for (let k = from.high; k >= from.low; k -= 2) {
      const left = reached[k - 1 + offset] ?? unreached
      const right = reached[k + 1 + offset] ?? unreached
      const start = left < right ? left : right - 1
      let at = start
      while (at > aStart && at - k > bStart && a[at - 1] === b[at - k - 1]) at--
      if (start - at > longRunOver) longRun = true
      steps += start - at + 1
      reached[k + offset] = at
      if (mayMeet && other.low <= k && k <= other.high && at <= other.at(k)) return { a: at, b: at - k }
    }
    this.#steps -= steps
    return longRun
  }

  /** The best position with a long equal run, if one is far beyond the cost of reaching it. */
  #sample(box: Box, edits: number): Split | undefined {
    const { aStart, aEnd, bStart, bEnd } = box
    const run = limits.diffLongRun
    let best = edits * limits.diffSampleGain
    let found: Reached | undefined
    for (let k = this.#forward.high; k >= this.#forward.low; k -= 2) {
      const a = this.#forward.at(k)
      const b = a - k
      const gain = a - aStart + (b - bStart) - Math.abs(k - (aStart - bStart))
      if (gain <= best || a < aStart + run || a >= aEnd || b < bStart + run || b >= bEnd) continue
      if (!this.#equalRun(a - run, b - run)) continue
      best = gain
      found = { a, b }
    }
    if (found !== undefined) return { ...found, exactBefore: true, exactAfter: false }
    for (let k = this.#backward.high; k >= this.#backward.low; k -= 2) {
      const a = this.#backward.at(k)
      const b = a - k
      const gain = aEnd - a + (bEnd - b) - Math.abs(k - (aEnd - bEnd))
      if (gain <= best || a <= aStart || a > aEnd - run || b <= bStart || b > bEnd - run) continue
      if (!this.#equalRun(a, b)) continue
      best = gain
      found = { a, b }
    }
    return found === undefined ? undefined : { ...found, exactBefore: false, exactAfter: true }
  }

  #equalRun(a: number, b: number): boolean {
    for (let i = 0; i < limits.diffLongRun; i++) if (this.#a[a + i] !== this.#b[b + i]) return false
    return true
  }

  /** The position that has the most lines between it and the end that its search began at. */
  #furthest({ aStart, aEnd, bStart, bEnd }: Box): Split {
    let forward: Reached = { a: aStart, b: bStart }
    for (let k = this.#forward.high; k >= this.#forward.low; k -= 2) {
      const a = Math.min(this.#forward.at(k), aEnd, bEnd + k)
      if (a + a - k > forward.a + forward.b) forward = { a, b: a - k }
    }
    let backward: Reached = { a: aEnd, b: bEnd }
    for (let k = this.#backward.high; k >= this.#backward.low; k -= 2) {
      const a = Math.max(this.#backward.at(k), aStart, bStart + k)
      if (a + a - k < backward.a + backward.b) backward = { a, b: a - k }
    }
    return aEnd + bEnd - (backward.a + backward.b) < forward.a + forward.b - (aStart + bStart)
      ? { ...forward, exactBefore: true, exactAfter: false }
      : { ...backward, exactBefore: false, exactAfter: true }
  }
}
