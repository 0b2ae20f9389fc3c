import type { Steps } from '../base/cooperative.js'
import { EngineError } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { usualLineEnd, type ByteText } from './byte-text.js'
import type { Hunk, HunkLine } from './file-patch.js'
import { findRuns } from './find-all.js'
import { splitInSteps } from './lines.js'
import { describeNearest, nearestLines } from './nearest-lines.js'
import type { PatchWork } from './patch-work.js'
import { LineNumbers } from './tolerant-match.js'

export interface HunkOptions {
  /** Lines of context at each end of a hunk that may differ. */
  readonly fuzz: number
  readonly path: string
  readonly work: PatchWork
}

/**
 * Applies the hunks of a unified patch, in order, by the rules of `git apply`: a hunk applies at the place nearest to
 * its line where all of its old lines match. A hunk that starts at the first line, or has no context at its end, must
 * match there, unless `fuzz` is above 0. With LF in the patch and CRLF in the file, the file keeps CRLF.
 *
 * @throws {EngineError} NO_MATCH when a hunk does not match.
 */
export function* applyHunks(
  text: ByteText,
  hunks: readonly Hunk[],
  { fuzz, path, work }: HunkOptions,
): Steps<ByteText, undefined> {
  const convert = (yield* usualLineEnd(text)) === '\r\n' && !hunks.some(hasCarriageReturns)
  const numbers = new LineNumbers((line) => (convert ? line.replace(/\r\n$/, '\n') : line))
  /** The lines of the text with their line ends: where they begin, and their numbers. */
  const starts: number[] = []
  const list: number[] = []
  for (let start = 0; start < text.length;) {
    const found = text.indexOf('\n', start)
    const end = found < 0 ? text.length : found + 1
    starts.push(start)
    list.push(numbers.of(text.slice(start, end)))
    if (list.length % limits.visitsPerLook === 0) yield
    start = end
  }
  const startOf = (line: number): number => starts[line] ?? text.length
  const parts: ByteText[] = []
  /** Lines of the old text that are in `parts`, and the lines in `parts` minus that number. */
  let done = 0
  let added = 0
  const copyTo = (line: number): void => {
    parts.push(text.slice(startOf(done), startOf(line)))
    done = line
  }
  for (const [index, hunk] of hunks.entries()) {
    if (index % limits.visitsPerLook === 0) yield
    const place = yield* findHunk(list, hunk, {
      from: done,
      expected: hunk.newStart - 1 - added,
      fuzz,
      numbers,
      work,
    })
    if (place === undefined) throw yield* mismatch(text, hunk, { index, path })
    copyTo(place.line)
    for (const { kind, text: line } of place.lines) {
      if (kind === '+') {
        parts.push(convert ? line.replace(/\n$/, '\r\n') : line)
        added++
        continue
      }
      // The line of the file, whose line end may differ from the one in the patch.
      if (kind === ' ') copyTo(done + 1)
      else {
        added--
        done++
      }
    }
  }
  copyTo(list.length)
  return parts.join('')
}

function hasCarriageReturns({ lines }: Hunk): boolean {
  return lines.some(({ text }) => text.endsWith('\r\n'))
}

interface Place {
  /** The index of the first old line. */
  readonly line: number
  /** Lines of context that were left out at the start. */
  readonly skipped: number
  /** The lines of the hunk without those that were left out. */
  readonly lines: readonly HunkLine[]
}

function* findHunk(
  list: readonly number[],
  { lines, oldStart }: Hunk,
  {
    from,
    expected,
    fuzz,
    numbers,
    work,
  }: { from: number; expected: number; fuzz: number; numbers: LineNumbers; work: PatchWork },
): Steps<Place | undefined, undefined> {
  const leading = contextLength(lines)
  const trailing = contextLength(lines.toReversed())
  for (let less = 0; less <= fuzz; less++) {
    if (less > Math.max(1, leading, trailing)) return undefined
    const skipped = Math.min(less, leading)
    const used = lines.slice(skipped, lines.length - Math.min(less, trailing))
    const old = used.filter(({ kind }) => kind !== '+').map(({ text }) => numbers.of(text))
    const isAtStart = less === 0 && oldStart <= 1
    const isAtEnd = less === 0 && trailing === 0
    const line = yield* findOld(list, old, { from, expected: expected + skipped, isAtStart, isAtEnd, work })
    if (line !== undefined) return { line, skipped, lines: used }
  }
  return undefined
}

/** The number of lines of context at the start of a hunk. */
function contextLength(lines: readonly HunkLine[]): number {
  const first = lines.findIndex(({ kind }) => kind !== ' ')
  return first < 0 ? lines.length : first
}

interface Search {
  readonly from: number
  readonly expected: number
  readonly isAtStart: boolean
  readonly isAtEnd: boolean
  readonly work: PatchWork
}

/** The place nearest to the expected one at which the old lines match. */
function* findOld(
  list: readonly number[],
  old: readonly number[],
  { from, expected, isAtStart, isAtEnd, work }: Search,
): Steps<number | undefined, undefined> {
  const last = list.length - old.length
  if (last < from) return undefined
  if (isAtStart || isAtEnd) {
    const only = isAtStart ? 0 : last
    if (only < from || (isAtStart && isAtEnd && last !== 0)) return undefined
    return matches(list, old, only) ? only : undefined
  }
  const start = Math.min(Math.max(expected, from), last)
  const farthest = Math.max(last - start, start - from)
  const near = Math.min(farthest, Math.floor(limits.charactersPerLook / (old.length + 1)))
  for (let distance = 0; distance <= near; distance++) {
    work.spend(1)
    for (const line of [start + distance, start - distance])
      if (line >= from && line <= last && matches(list, old, line)) return line
  }
  if (near === farthest) return undefined
  // Comparing all lines at each place further away could take time in proportion to their product.
  work.spend(list.length - from)
  return nearestTo(start, yield* findRuns(list, old, { from }))
}

/** The line that is nearest to `start`. Of two, it is the later one. Lines are ascending. */
function nearestTo(start: number, lines: readonly number[]): number | undefined {
  let nearest: number | undefined
  for (const line of lines)
    if (nearest === undefined || Math.abs(line - start) <= Math.abs(nearest - start)) nearest = line
  return nearest
}

function matches(list: readonly number[], old: readonly number[], line: number): boolean {
  for (let index = 0; index < old.length; index++) if (list[line + index] !== old[index]) return false
  return true
}

function* mismatch(
  text: ByteText,
  { oldStart, lines: hunkLines }: Hunk,
  { index, path }: { index: number; path: string },
): Steps<EngineError, undefined> {
  const old = hunkLines.filter(({ kind }) => kind !== '+').map((line) => line.text.replace(/\r?\n$/, ''))
  const lines = yield* splitInSteps(text)
  // The text after the last line end is no line.
  if (lines.at(-1) === '') lines.pop()
  const nearest = yield* nearestLines(lines, old)
  return noMatch({ path, hunk: index + 1, at: `of line ${oldStart}` }, nearest)
}

/** The error NO_MATCH for a part of a patch. */
export function noMatch(
  { path, hunk, at }: { readonly path: string; readonly hunk: number; readonly at: string },
  nearest: readonly { readonly lineNumber: number; readonly text: string }[],
): EngineError {
  return new EngineError(
    'NO_MATCH',
    `hunk ${hunk} ${at} does not match ${path}; ${describeNearest(nearest)}. Read the file again, and make a new patch`,
    {
      path,
      hunk: String(hunk),
      ...(nearest.length > 0 && {
        lineNumbers: nearest.map(({ lineNumber }) => lineNumber).join(','),
        nearestLines: nearest.map(({ text }) => text).join('\n'),
      }),
    },
  )
}
