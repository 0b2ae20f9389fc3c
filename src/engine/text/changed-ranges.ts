import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'

/** Lines of the new content of a file. */
export interface LineRange {
  /** The first line, from 1. */
  readonly startLine: number
  /** The last line. Where text was only removed, the range is the line that is there now. */
  readonly endLine: number
}

interface Range {
  start: number
  end: number
}

/** The ranges of a text that several rounds of replacements changed. */
export class ChangedRanges {
  #ranges: Range[] = []

  /** A round of replacements, ascending and apart, in the text after the rounds before. */
  note(found: readonly { readonly start: number; readonly end: number; readonly text: string }[]): void {
    const moved = this.#ranges.map((range) => ({ ...range }))
    let shift = 0
    let at = 0
    const fresh: Range[] = []
    for (const { start, end, text } of found) {
      for (; at < moved.length && itemAt(moved, at).end <= start; at++) move(itemAt(moved, at), shift)
      fresh.push({ start: start + shift, end: start + shift + text.length })
      shift += text.length - (end - start)
      // A range that the replacement touches becomes a part of it.
      for (; at < moved.length && itemAt(moved, at).start < end; at++) {
        const range = itemAt(moved, at)
        move(range, shift)
        range.start = Math.min(range.start, itemAt(fresh, -1).start)
        range.end = Math.max(range.end, itemAt(fresh, -1).end)
      }
    }
    for (; at < moved.length; at++) move(itemAt(moved, at), shift)
    this.#ranges = merged([...moved, ...fresh].sort((a, b) => a.start - b.start))
  }

  /** The ranges as lines of the final text, merged where they touch. */
  inLines(text: string): LineRange[] {
    const ends = this.#ranges.slice(0, limits.editRanges)
    const lines: { startLine: number; endLine: number }[] = []
    let line = 1
    let at = 0
    const lineAt = (offset: number): number => {
      for (let next = text.indexOf('\n', at); next >= 0 && next < offset; next = text.indexOf('\n', at)) {
        line++
        at = next + 1
      }
      return line
    }
    for (const { start, end } of ends) {
      const startLine = lineAt(start)
      const endLine = end > start ? lineAt(end - (text[end - 1] === '\n' ? 1 : 0)) : startLine
      const last = lines.at(-1)
      if (last !== undefined && startLine <= last.endLine + 1) last.endLine = Math.max(last.endLine, endLine)
      else lines.push({ startLine, endLine })
    }
    return lines
  }
}

function move(range: Range, shift: number): void {
  range.start += shift
  range.end += shift
}

function merged(ranges: readonly Range[]): Range[] {
  const list: Range[] = []
  for (const range of ranges) {
    const last = list.at(-1)
    if (last !== undefined && range.start <= last.end) last.end = Math.max(last.end, range.end)
    else list.push(range)
  }
  return list
}

/** The line numbers, from 1, of ascending offsets in a text. */
export function lineNumbersOf(text: string, offsets: readonly number[]): number[] {
  let line = 1
  let at = 0
  return offsets.map((offset) => {
    for (let next = text.indexOf('\n', at); next >= 0 && next < offset; next = text.indexOf('\n', at)) {
      line++
      at = next + 1
    }
    return line
  })
}
