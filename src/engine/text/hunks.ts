import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import type { LineChange } from './line-diff.js'

/** Some changed lines with unchanged lines around them. */
export interface Hunk {
  /** The first line before the change, counted from 1. */
  readonly oldStart: number
  /** The number of lines before the change. */
  readonly oldLines: number
  /** The first line after the change, counted from 1. */
  readonly newStart: number
  /** The number of lines after the change. */
  readonly newLines: number
  /**
   * The lines without their LF, each after a space, `-` or `+`. The line `\ No newline at end of file`
   * follows the last line of a file that has no LF at its end.
   */
  readonly lines: string[]
}

/** Groups changes into hunks with up to `context` unchanged lines around each change. */
export function* hunksOf(
  before: readonly string[],
  after: readonly string[],
  changes: readonly LineChange[],
  context: number,
): Steps<Hunk[], undefined> {
  const hunks: Hunk[] = []
  for (const { first, last, changes: grouped } of groups(changes, context)) {
    const oldStart = Math.max(first.aStart - context, 0)
    const oldEnd = Math.min(last.aEnd + context, before.length)
    const newStart = first.bStart - (first.aStart - oldStart)
    const newEnd = last.bEnd + (oldEnd - last.aEnd)
    const lines: string[] = []
    let at = oldStart
    for (const { aStart, aEnd, bStart, bEnd } of grouped) {
      yield* addLines(lines, ' ', before.slice(at, aStart))
      yield* addLines(lines, '-', before.slice(aStart, aEnd))
      yield* addLines(lines, '+', after.slice(bStart, bEnd))
      at = aEnd
    }
    yield* addLines(lines, ' ', before.slice(at, oldEnd))
    hunks.push({
      oldStart: oldStart + 1,
      oldLines: oldEnd - oldStart,
      newStart: newStart + 1,
      newLines: newEnd - newStart,
      lines,
    })
    yield
  }
  return hunks
}

interface Group {
  readonly first: LineChange
  last: LineChange
  readonly changes: LineChange[]
}

/** Changes whose unchanged lines would meet belong to one hunk. */
function groups(changes: readonly LineChange[], context: number): Group[] {
  const found: Group[] = []
  for (const change of changes) {
    const group = found.at(-1)
    if (group === undefined || change.aStart - group.last.aEnd > 2 * context)
      found.push({ first: change, last: change, changes: [change] })
    else {
      group.changes.push(change)
      group.last = change
    }
  }
  return found
}

function* addLines(to: string[], sign: ' ' | '-' | '+', lines: readonly string[]): Steps<void, undefined> {
  for (const line of lines) {
    if (to.length % limits.linesPerLook === limits.linesPerLook - 1) yield
    if (line.endsWith('\n')) to.push(sign + line.slice(0, -1))
    else to.push(sign + line, '\\ No newline at end of file')
  }
}
