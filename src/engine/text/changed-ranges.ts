import type { Steps } from '../base/cooperative.js'
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

  /** A round of replacements, ascending and apart, in the text after the rounds before. */
  *note(
    found: readonly { readonly start: number; readonly end: number; readonly text: string }[],
  ): Steps<void, undefined> {
    const earlier = this.#ranges
    const list: Range[] = []
    let at = 0
    let shift = 0
    for (const [i, { start, end, text }] of found.entries()) {
      if (i % limits.charactersPerLook === 0) yield
      let range = earlier[at]
      for (; range !== undefined && range.end <= start; range = earlier[++at])
        append(list, range.start + shift, range.end + shift)
      if (range !== undefined && range.start < start) append(list, range.start + shift, start + shift)
      const newStart = start + shift
      shift += text.length - (end - start)
      append(list, newStart, end + shift)
      // A range that ends after the replacement is added later, with its end.
      for (; range !== undefined && range.end <= end; range = earlier[++at]);
    }
    for (; at < earlier.length; at++) {
      const { start, end } = itemAt(earlier, at)
      append(list, start + shift, end + shift)
    }
    this.#ranges = list
  }
}

/** Adds a range to an ascending list. It becomes a part of the last range if they touch. */
function append(list: Range[], start: number, end: number): void {
  const last = list.at(-1)
  if (last !== undefined && start <= last.end) last.end = Math.max(last.end, end)
  else list.push({ start, end })
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
