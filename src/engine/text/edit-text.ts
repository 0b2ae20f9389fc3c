import type { Steps } from '../base/cooperative.js'
import { EngineError } from '../base/errors.js'
import { tooLarge } from '../base/input.js'
import { limits } from '../base/limits.js'
import { itemAt } from '../base/present.js'
import {
  byteOrderMark,
  lineEndingOf,
  withoutCarriageReturns,
  withoutMark,
  type ByteText,
} from './byte-text.js'
import { ChangedRanges, lineNumbersOf, type LineRange } from './changed-ranges.js'
import { findAll } from './find-all.js'
import { splitInSteps } from './lines.js'
import { describeNearest, nearestLines } from './nearest-lines.js'
import { findTolerantly } from './tolerant-match.js'

/** How an edit compares white space. */
export type Whitespace = 'exact' | 'tolerant'

/** A replacement in a text, with its texts as bytes in UTF-8. */
export interface ByteEdit {
  readonly oldText: ByteText
  readonly newText: ByteText
  readonly all: boolean
}

/** A range of the text and the text that replaces it. */
export interface Replacement {
  readonly start: number
  readonly end: number
  readonly text: ByteText
}

export interface EditedText {
  readonly text: ByteText
  readonly replacementCount: number
  readonly ranges: LineRange[]
}

/**
 * Makes all edits in order; each sees the result of the ones before it. The line ends and the byte order mark of the
 * file stay. In a file whose lines all end in CRLF, LF in an edit means CRLF.
 */
export function* editText(
  file: ByteText,
  edits: readonly ByteEdit[],
  whitespace: Whitespace,
  path: string,
): Steps<EditedText, undefined> {
  if (edits.length * file.length > limits.editWork)
    throw tooLarge(
      'edits',
      `edits for a file of ${file.length} bytes`,
      Math.floor(limits.editWork / file.length),
    )
  const mark = file.startsWith(byteOrderMark) ? byteOrderMark : ''
  const body = file.slice(mark.length)
  const ending = lineEndingOf(body)
  const isCrlf = ending === 'CRLF'
  let text = isCrlf ? withoutCarriageReturns(body) : body
  const ranges = new ChangedRanges()
  let replacementCount = 0
  for (const [index, given] of edits.entries()) {
    const edit = mark === '' ? given : withoutMarks(given)
    const find = new EditSearch(text, edit, {
      whitespace,
      path,
      field: `edits[${index}]`,
      isMixed: ending === 'mixed',
    })
    const found = yield* find.replacements(ending === 'CRLF' || ending === 'LF')
    replacementCount += found.length
    if (replacementCount > limits.editReplacements)
      throw tooLarge('edits', 'replacements', limits.editReplacements)
    const next = yield* replaceRanges(text, found)
    yield* ranges.note(found)
    text = next
    yield
  }
  const list = ranges.inLines(text)
  const end = isCrlf ? text.replaceAll('\n', '\r\n') : text
  checkSize(end.length)
  return { text: mark + end, replacementCount, ranges: list }
}

function withoutMarks({ oldText, newText, all }: ByteEdit): ByteEdit {
  return { oldText: withoutMark(oldText), newText: withoutMark(newText), all }
}

interface SearchOptions {
  readonly whitespace: Whitespace
  readonly path: string
  readonly field: string
  readonly isMixed: boolean
}

/** The search for one edit in one text. */
class EditSearch {
  readonly #text: ByteText
  readonly #edit: ByteEdit
  readonly #options: SearchOptions

  constructor(text: ByteText, edit: ByteEdit, options: SearchOptions) {
    this.#text = text
    this.#edit = edit
    this.#options = options
  }

  /** `uniform`: all line ends of the file are alike, and the text has LF in their place. */
  *replacements(uniform: boolean): Steps<Replacement[], undefined> {
    const { oldText, newText, all } = this.#edit
    const plain: ByteEdit = uniform
      ? { oldText: withoutCarriageReturns(oldText), newText: withoutCarriageReturns(newText), all }
      : this.#edit
    const { isMixed } = this.#options
    // In a file with both line ends, LF in an edit means both.
    const meansBoth = isMixed && oldText.includes('\n') && !oldText.includes('\r\n')
    const exact = meansBoth ? [] : yield* this.#exact(this.#text, plain)
    if (exact.length > 0) return exact
    if (isMixed) {
      const mapped = yield* this.#acrossLineEnds()
      if (mapped.length > 0) return mapped
    }
    if (this.#options.whitespace === 'tolerant' && oldText.trim() !== '') {
      const edit = isMixed ? { ...plain, newText: withoutCarriageReturns(newText) } : plain
      const found = this.#checked(yield* findTolerantly(this.#text, edit), this.#text)
      if (found.length > 0) return isMixed ? found.map((one) => this.#withLineEnd(one)) : found
    }
    throw yield* this.#noMatch(plain.oldText)
  }

  *#exact(text: ByteText, { oldText, newText, all }: ByteEdit): Steps<Replacement[], undefined> {
    const limit = limits.editReplacements + 1
    const starts = yield* findAll(text, oldText, { apart: all, limit })
    if (starts.length === limit) throw tooLarge(this.#options.field, 'replacements', limits.editReplacements)
    const found = starts.map((start) => ({ start, end: start + oldText.length, text: newText }))
    return this.#checked(found, text)
  }

  /** A search that takes LF and CRLF for the same, for a file with both. */
  *#acrossLineEnds(): Steps<Replacement[], undefined> {
    const removed: number[] = []
    for (const at of yield* findAll(this.#text, '\r\n', { apart: true })) {
      removed.push(at - removed.length)
      if (removed.length % limits.charactersPerLook === 0) yield
    }
    const { oldText, newText, all } = this.#edit
    const found = yield* this.#exact(withoutCarriageReturns(this.#text), {
      oldText: withoutCarriageReturns(oldText),
      newText: withoutCarriageReturns(newText),
      all,
    })
    const mapped: Replacement[] = []
    for (const { start, end, text } of found) {
      const range = { start: start + countBelow(removed, start), end: end + countBelow(removed, end) }
      mapped.push(this.#withLineEnd({ ...range, text }))
      if (mapped.length % limits.charactersPerLook === 0) yield
    }
    return mapped
  }

  /** The replacement with the first line end of its range, for a file with both. */
  #withLineEnd({ start, end, text }: Replacement): Replacement {
    const lineEnd = this.#text.indexOf('\n', start)
    const isCrlf = lineEnd < end && this.#text.charCodeAt(lineEnd - 1) === 13
    return { start, end, text: isCrlf ? text.replaceAll('\n', '\r\n') : text }
  }

  #checked(found: Replacement[], text: ByteText): Replacement[] {
    if (found.length < 2 || this.#edit.all) return found
    const { path, field } = this.#options
    const numbers = lineNumbersOf(
      text,
      found.slice(0, limits.shownMatches).map(({ start }) => start),
    )
    const more = found.length > numbers.length ? ' and more' : ''
    throw new EngineError(
      'NOT_UNIQUE',
      `${field}.oldText matches ${found.length} times in ${path}, at lines ${numbers.join(', ')}${more}; ` +
        'add lines around it until it matches once, or pass all: true',
      { path, field, matchCount: String(found.length), lineNumbers: numbers.join(',') },
    )
  }

  *#noMatch(oldText: ByteText): Steps<EngineError, undefined> {
    const { path, field } = this.#options
    const nearest = yield* nearestLines(yield* splitInSteps(this.#text), oldText.split('\n'))
    return new EngineError(
      'NO_MATCH',
      `${field}.oldText is not in ${path}; ${describeNearest(nearest)}. Read the lines again, and copy the text exactly`,
      {
        path,
        field,
        ...(nearest.length > 0 && {
          lineNumbers: nearest.map(({ lineNumber }) => lineNumber).join(','),
          nearestLines: nearest.map(({ text }) => text).join('\n'),
        }),
      },
    )
  }
}

/** The number of values in an ascending list that are below a bound. */
function countBelow(list: readonly number[], bound: number): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (itemAt(list, middle) < bound) low = middle + 1
    else high = middle
  }
  return low
}

function* replaceRanges(text: ByteText, found: readonly Replacement[]): Steps<ByteText, undefined> {
  const parts: string[] = []
  let done = 0
  let length = text.length
  for (const [i, { start, end, text: replacement }] of found.entries()) {
    if (i % limits.charactersPerLook === 0) yield
    length += replacement.length - (end - start)
    checkSize(length)
    parts.push(text.slice(done, start), replacement)
    done = end
  }
  parts.push(text.slice(done))
  return parts.join('')
}

function checkSize(bytes: number): void {
  if (bytes > limits.textFileBytes) throw tooLarge('edits', 'bytes in the edited file', limits.textFileBytes)
}
