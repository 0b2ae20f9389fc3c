import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'
import type { ByteText } from './byte-text.js'
import { findRuns } from './find-all.js'
import { splitInSteps } from './lines.js'

/** The ways to compare lines, from strict to lenient. */
export const comparisons: readonly ((line: ByteText) => ByteText)[] = [
  (line) => line,
  withoutEnd,
  (line) => withoutEnd(line).slice(indentOf(line).length),
]

function withoutEnd(line: ByteText): ByteText {
  let end = line.length
  while (end > 0 && isSpace(line.charCodeAt(end - 1))) end--
  return line.slice(0, end)
}

/** White space of ASCII. The bytes of other characters are not white space. */
function isSpace(code: number): boolean {
  return code === 32 || (code >= 9 && code <= 13)
}

/** Numbers for lines, equal for lines that are equal in a comparison. */
export class LineNumbers {
  readonly #numbers = new Map<ByteText, number>()
  readonly #compared: (line: ByteText) => ByteText

  constructor(compared: (line: ByteText) => ByteText) {
    this.#compared = compared
  }

  of(line: ByteText): number {
    const text = this.#compared(line)
    let number = this.#numbers.get(text)
    if (number === undefined) this.#numbers.set(text, (number = this.#numbers.size))
    return number
  }
}

/**
 * The places where whole lines match: first without white space at the ends of lines, then also without it at the
 * starts. In the second case the replacement gets the indentation of the file: the indentation of the first line of
 * `oldText` is exchanged for the one of the first line that it matched.
 */
export function* findTolerantly(
  text: ByteText,
  {
    oldText,
    newText,
    all,
  }: { readonly oldText: ByteText; readonly newText: ByteText; readonly all: boolean },
): Steps<{ start: number; end: number; text: ByteText }[], undefined> {
  const endsLine = oldText.endsWith('\n')
  const wanted = (endsLine ? oldText.slice(0, -1) : oldText).split('\n')
  const lines = yield* splitInSteps(text)
  for (const [level, compared] of comparisons.entries()) {
    if (level === 0) continue
    const numbers = new LineNumbers(compared)
    const list: number[] = []
    for (const line of lines) {
      list.push(numbers.of(line))
      if (list.length % limits.charactersPerLook === 0) yield
    }
    const runs = yield* findRuns(
      list,
      wanted.map((line) => numbers.of(line)),
      { apart: all, limit: limits.editReplacements },
    )
    if (runs.length === 0) continue
    const starts = startsOf(lines)
    return runs.map((first) => {
      const last = first + wanted.length - 1
      const lineEnd = itemAt(starts, last) + itemAt(lines, last).length
      // The last line of the file may have no line end. A CR before LF belongs to the line end.
      const isLast = lineEnd === text.length
      const hasCarriageReturn = !isLast && itemAt(lines, last).endsWith('\r')
      const end = endsLine && !isLast ? lineEnd + 1 : hasCarriageReturn ? lineEnd - 1 : lineEnd
      const indented = level === 1 ? newText : reindented(newText, wanted, lines.slice(first, last + 1))
      return { start: itemAt(starts, first), end, text: indented }
    })
  }
  return []
}

function startsOf(lines: readonly ByteText[]): number[] {
  let at = 0
  return lines.map((line) => {
    const start = at
    at += line.length + 1
    return start
  })
}

function reindented(newText: ByteText, wanted: readonly ByteText[], found: readonly ByteText[]): ByteText {
  const at = wanted.findIndex((line) => line.trim() !== '')
  const from = indentOf(wanted[at] ?? '')
  const to = indentOf(found[at] ?? '')
  if (from === to) return newText
  return newText
    .split('\n')
    .map((line) => (line.trim() !== '' && line.startsWith(from) ? to + line.slice(from.length) : line))
    .join('\n')
}

function indentOf(line: ByteText): string {
  let end = 0
  while (end < line.length && isSpace(line.charCodeAt(end))) end++
  return line.slice(0, end)
}
