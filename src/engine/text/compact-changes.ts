/**
 * Moves changes to their canonical place. A run of changed lines can move by a line if the line that it leaves
 * equals the one that it takes in: of two equal lines in a row, either may be the added one.
 */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import type { Side } from './compared-lines.js'

/**
 * Moves each run of changed lines as far down as possible, or next to the last change of the other side that it
 * can be next to. Runs that meet become one.
 */
export function* compactChanges(side: Side, otherChanged: Uint8Array): Steps<void, undefined> {
  const run = new Run(side.changed, side.ids)
  const other = new Run(otherChanged)
  for (let runs = 1; ; runs++) {
    if (runs % limits.linesPerLook === 0) yield
    if (!run.isEmpty) compactRun(run, other)
    if (!run.next()) return
    other.next()
  }
}

function compactRun(run: Run, other: Run): void {
  let size: number
  let highest: number
  let meetsOther: boolean
  do {
    size = run.size
    while (run.slideUp()) other.previous()
    highest = run.end
    meetsOther = !other.isEmpty
    while (run.slideDown()) {
      other.next()
      meetsOther ||= !other.isEmpty
    }
  } while (size !== run.size)
  if (!meetsOther || run.end === highest) return
  while (other.isEmpty) {
    run.slideUp()
    other.previous()
  }
}

const noIds = new Int32Array()

/** The changed lines, maybe none, between two unchanged lines. */
class Run {
  readonly #changed: Uint8Array
  readonly #ids: Int32Array
  readonly #length: number
  #start = 0
  end = 0

  constructor(changed: Uint8Array, ids: Int32Array = noIds) {
    this.#changed = changed
    this.#ids = ids
    this.#length = changed.length - 1
    this.#growDown()
  }

  get size(): number {
    return this.end - this.#start
  }

  get isEmpty(): boolean {
    return this.end === this.#start
  }

  /** Goes to the run after the next unchanged line. False at the end. */
  next(): boolean {
    if (this.end === this.#length) return false
    this.#start = this.end + 1
    this.end = this.#start
    this.#growDown()
    return true
  }

  previous(): void {
    this.end = this.#start - 1
    this.#start = this.end
    this.#growUp()
  }

  slideUp(): boolean {
    if (this.#start === 0 || this.#ids[this.#start - 1] !== this.#ids[this.end - 1]) return false
    this.#changed[--this.#start] = 1
    this.#changed[--this.end] = 0
    this.#growUp()
    return true
  }

  slideDown(): boolean {
    if (this.end === this.#length || this.#ids[this.#start] !== this.#ids[this.end]) return false
    this.#changed[this.#start++] = 0
    this.#changed[this.end++] = 1
    this.#growDown()
    return true
  }

  #growUp(): void {
    while (this.#changed[this.#start - 1] === 1) this.#start--
  }

  #growDown(): void {
    while (this.#changed[this.end] === 1) this.end++
  }
}
