import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'
import { noMatch } from './apply-hunks.js'
import { byteOrderMark, usualLineEnd, withoutMark, type ByteText } from './byte-text.js'
import type { V4aSection } from './file-patch.js'
import { findRuns } from './find-all.js'
import { splitInSteps } from './lines.js'
import { nearestLines } from './nearest-lines.js'
import type { PatchWork } from './patch-work.js'
import { comparisons, LineNumbers } from './tolerant-match.js'

interface SectionOptions {
  readonly path: string
  readonly work: PatchWork
}

/**
 * Applies the sections of a V4A patch, in order. The lines of a section match exactly, or else without white space at
 * their ends, or else without white space around them. The first place after the section before is taken. Lines of
 * context and a byte order mark stay as they are in the file.
 *
 * @throws {EngineError} NO_MATCH when a section does not match.
 */
export function* applyV4a(
  file: ByteText,
  sections: readonly V4aSection[],
  options: SectionOptions,
): Steps<ByteText, undefined> {
  if (!file.startsWith(byteOrderMark)) return yield* applySections(file, sections, options)
  return byteOrderMark + (yield* applySections(withoutMark(file), sections.map(withoutMarks), options))
}

/** The lines of a patch may have the mark of the file, or not. */
function withoutMarks({ anchors, lines, isAtEnd }: V4aSection): V4aSection {
  return {
    anchors: anchors.map(withoutMark),
    lines: lines.map(({ kind, text }) => ({ kind, text: withoutMark(text) })),
    isAtEnd,
  }
}

function* applySections(
  text: ByteText,
  sections: readonly V4aSection[],
  { path, work }: SectionOptions,
): Steps<ByteText, undefined> {
  const isCrlf = (yield* usualLineEnd(text)) === '\r\n'
  const lineEnd = isCrlf ? '\r\n' : '\n'
  /** Where the lines of the text begin. The last one has no line end. */
  const starts: number[] = []
  const lists = comparisons.map((compared) => new ComparedLines(compared, work))
  for (let start = 0; start >= 0;) {
    const end = text.indexOf('\n', start)
    const line = end < 0 ? text.slice(start) : text.slice(start, end)
    // In a file with CRLF, the last line has no CR of a line end.
    const bare = line.endsWith('\r') && !(isCrlf && end < 0) ? line.slice(0, -1) : line
    for (const list of lists) list.add(bare)
    if (starts.push(start) % limits.visitsPerLook === 0) yield
    start = end < 0 ? -1 : end + 1
  }
  const parts: ByteText[] = []
  let done = 0
  let from = 0
  /** Each line in `parts` gets a line end. The one of the last line is removed at the end. */
  const copyTo = (line: number): void => {
    parts.push(text.slice(starts[done] ?? text.length, starts[line] ?? text.length))
    if (line === starts.length && done < line) parts.push(lineEnd)
    done = line
  }
  for (const [index, section] of sections.entries()) {
    yield
    for (const anchor of section.anchors) {
      const at = yield* findLines(lists, [anchor], { from, isAtEnd: false })
      if (at === undefined) throw yield* mismatch(text, [anchor], { index, path, at: '(its line after @@)' })
      from = at + 1
    }
    const old = section.lines.filter(({ kind }) => kind !== '+').map((line) => line.text)
    const place = yield* placeOf(lists, old, {
      from,
      isAtEnd: section.isAtEnd,
      hasAnchor: section.anchors.length > 0,
    })
    if (place === undefined) throw yield* mismatch(text, old, { index, path, at: '(its context)' })
    copyTo(place)
    for (const { kind, text: line } of section.lines) {
      if (kind === '+') parts.push(line, lineEnd)
      else if (kind === ' ') copyTo(done + 1)
      else done++
    }
    from = done
  }
  copyTo(starts.length)
  const joined = parts.join('')
  const open = joined.endsWith('\n') ? joined.slice(0, -1) : joined
  return isCrlf && open.endsWith('\r') ? open.slice(0, -1) : open
}

/** The lines of a file as numbers, equal for lines that are equal in one comparison. */
class ComparedLines {
  readonly list: number[] = []
  readonly #numbers: LineNumbers
  /** For each number, the last line that has it. */
  readonly #last: number[] = []
  readonly #work: PatchWork

  constructor(compared: (line: ByteText) => ByteText, work: PatchWork) {
    this.#numbers = new LineNumbers(compared)
    this.#work = work
  }

  add(line: ByteText): void {
    const number = this.#numbers.of(line)
    this.#last[number] = this.list.length
    this.list.push(number)
  }

  numbersOf(lines: readonly ByteText[]): number[] {
    return lines.map((line) => this.#numbers.of(line))
  }

  /** The first place of lines, from a line on. */
  *find(old: readonly number[], from: number): Steps<number | undefined, undefined> {
    // Most lines that do not match are nowhere in the rest of the file.
    if (!old.every((number, offset) => (this.#last[number] ?? -1) >= from + offset)) return undefined
    const [start] = yield* findRuns(this.list, old, { from, limit: 1 })
    this.#work.spend((start ?? this.list.length) - from)
    return start
  }
}

/** Where the old lines of a section are. A section without old lines adds at its anchor, or at the end of the file. */
function* placeOf(
  lists: readonly ComparedLines[],
  old: readonly ByteText[],
  { from, isAtEnd, hasAnchor }: { from: number; isAtEnd: boolean; hasAnchor: boolean },
): Steps<number | undefined, undefined> {
  if (old.length > 0) return yield* findLines(lists, old, { from, isAtEnd })
  const exact = itemAt(lists, 0)
  const { list } = exact
  if (hasAnchor && !isAtEnd) return from
  // The text after the last line end is no line.
  return list.at(-1) === exact.numbersOf([''])[0] ? list.length - 1 : list.length
}

function* findLines(
  lists: readonly ComparedLines[],
  wanted: readonly ByteText[],
  { from, isAtEnd }: { from: number; isAtEnd: boolean },
): Steps<number | undefined, undefined> {
  const known = lists.map((lines) => ({ lines, old: lines.numbersOf(wanted) }))
  // As in the reference implementation: every comparison at the end comes before the first one elsewhere.
  for (const { lines, old } of isAtEnd ? known : []) {
    const last = lines.list.length - old.length
    for (const start of [last, last - 1]) if (start >= from && matches(lines.list, old, start)) return start
  }
  for (const { lines, old } of known) {
    const start = yield* lines.find(old, from)
    if (start !== undefined) return start
  }
  return undefined
}

function matches(list: readonly number[], old: readonly number[], start: number): boolean {
  for (let index = 0; index < old.length; index++) if (list[start + index] !== old[index]) return false
  return true
}

function* mismatch(
  text: ByteText,
  wanted: readonly ByteText[],
  place: { index: number; path: string; at: string },
): Steps<Error, undefined> {
  const nearest = yield* nearestLines(yield* splitInSteps(text), wanted)
  return noMatch({ path: place.path, hunk: place.index + 1, at: place.at }, nearest)
}
