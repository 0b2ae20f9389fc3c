import { limits } from '../base/limits.js'
import { decodeText, withoutCarriageReturns, withoutMark, type ByteText } from './byte-text.js'
import type { LineRange } from './changed-ranges.js'
import { cutLine } from './line-text.js'

/** Changed lines of the new content of a file, with unchanged lines around them. */
export interface EditHunk {
  /** The number of the first of `lines`, from 1. */
  readonly startLine: number
  /** The lines, without line ends. A line over 2,000 UTF-16 units is cut. */
  readonly lines: string[]
}

/**
 * The lines of ranges with `context` lines around each. Ranges whose lines touch share an item. It stops after
 * {@link limits.editHunkLines} lines.
 */
export function editHunks(text: ByteText, ranges: readonly LineRange[], context: number): EditHunk[] {
  const reader = new LineWalk(text)
  const items: EditHunk[] = []
  let count = 0
  for (const { startLine, endLine } of ranges) {
    const start = Math.max(startLine - context, reader.nextLine)
    const end = endLine + context
    if (count >= limits.editHunkLines) break
    const lines = reader.read(start, Math.min(end, start + limits.editHunkLines - count - 1))
    if (lines.length === 0) continue
    count += lines.length
    const last = items.at(-1)
    if (last !== undefined && last.startLine + last.lines.length === start) last.lines.push(...lines)
    else items.push({ startLine: start, lines })
  }
  return items
}

/** Reads lines of a text, each at most once, in order. */
class LineWalk {
  readonly #text: ByteText
  #at: number
  #line = 1

  constructor(text: ByteText) {
    this.#text = text
    this.#at = text.length - withoutMark(text).length
  }

  /** The number of the first line that was not read yet. */
  get nextLine(): number {
    return this.#line
  }

  /** The lines from `start` to `end`, as far as the text has them. */
  read(start: number, end: number): string[] {
    while (this.#line < start && this.#at < this.#text.length) this.#skipLine()
    const from = this.#at
    while (this.#line <= end && this.#at < this.#text.length) this.#skipLine()
    if (this.#at === from) return []
    // Decoded together: a part of the whole text would keep all of it in memory.
    const lines = decodeText(withoutCarriageReturns(this.#text.slice(from, this.#at))).split('\n')
    if (lines.at(-1) === '') lines.pop()
    return lines.map((line) => cutLine(line, limits.lineLengthDefault).text)
  }

  #skipLine(): void {
    const lineEnd = this.#text.indexOf('\n', this.#at)
    this.#at = lineEnd === -1 ? this.#text.length : lineEnd + 1
    this.#line++
  }
}
