/** Lines of text. A line keeps its ending, so joining the lines gives the text again. */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'

/**
 * Cuts a text after each LF. A CR before the LF belongs to the ending. The last line has no ending if the
 * text has no LF at its end. An empty text has no lines.
 */
export function* splitLines(text: string): Steps<string[], undefined> {
  const lines: string[] = []
  let start = 0
  for (let end = text.indexOf('\n') + 1; end > 0; end = text.indexOf('\n', start) + 1) {
    if (lines.push(text.slice(start, end)) % limits.linesPerLook === 0) yield
    start = end
  }
  if (start < text.length) lines.push(text.slice(start))
  return lines
}

/** The parts of a text between its LFs. */
export function* splitInSteps(text: string): Steps<string[], undefined> {
  const lines: string[] = []
  let start = 0
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
    if (lines.push(text.slice(start, end)) % limits.charactersPerLook === 0) yield
    start = end + 1
  }
  lines.push(text.slice(start))
  return lines
}

/** The same lines as numbers: equal lines have the same number. */
export type LineIds = Int32Array

/** Numbers lines. Lines of all texts of one comparison go through the same table. */
export class LineTable {
  readonly #ids = new Map<string, number>();

  *idsOf(lines: readonly string[]): Steps<LineIds, undefined> {
    const ids = new Int32Array(lines.length)
    for (const [index, line] of lines.entries()) {
      if (index % limits.linesPerLook === limits.linesPerLook - 1) yield
      let id = this.#ids.get(line)
      if (id === undefined) {
        id = this.#ids.size
        this.#ids.set(line, id)
      }
      ids[index] = id
    }
    return ids
  }
}

/** Numbers two parts of a large text anew, from 0. Tables of all numbers then grow with these parts only. */
export function renumber(a: LineIds, b: LineIds): readonly [LineIds, LineIds] {
  const numbers = new Map<number, number>()
  const renumbered = (id: number): number => {
    const known = numbers.get(id)
    if (known !== undefined) return known
    numbers.set(id, numbers.size)
    return numbers.size - 1
  }
  return [a.map(renumbered), b.map(renumbered)]
}
