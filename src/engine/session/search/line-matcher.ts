import { Buffer } from 'node:buffer'
import type { Steps } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import { decodeText, encodeText } from '../../text/byte-text.js'
import { findAll } from '../../text/find-all.js'
import {
  compileRegularExpression,
  loadRegularExpressions,
  quoted,
  type RegularExpression,
} from '../../text/regular-expression.js'
import type { LineQuery } from './grep-request.js'

/** A matching line: a range of the searched text, and where the first match in it begins. */
export interface MatchedLine {
  readonly start: number
  readonly end: number
  readonly match: number
}

/** The text of a file as a matcher searches it. */
export interface SearchedText {
  readonly text: string
  /** Decodes a part of the text. */
  readonly decode: (part: string) => string
}

/** Finds the matching lines of a content. */
export interface LineMatcher {
  /** The largest file that it searches. */
  readonly mostBytes: number
  /** The text of a content, or undefined if it certainly has no match. */
  open: (bytes: Buffer) => SearchedText | undefined
  /** The matching lines, ascending, at most `limit`. */
  find: (text: string, limit: number) => Steps<MatchedLine[], undefined>
}

/** Loads the engine of regular expressions if the query needs it. */
export async function loadMatcher(query: LineQuery): Promise<void> {
  if (!isTextSearch(query)) await loadRegularExpressions()
}

/** A pattern without special characters is searched as text, unless it could match a part of a line end. */
function isTextSearch(query: LineQuery): boolean {
  const { pattern } = query
  const isAscii = /^[\0-\u007f]*$/.test(pattern)
  return isPlain(query) && !query.multiline && !pattern.includes('\r') && (isAscii || !query.ignoreCase)
}

function isPlain({ literal, pattern }: LineQuery): boolean {
  return literal || !/[\\.*+?()[\]{}|^$]/.test(pattern)
}

/** The matcher of a query. Call {@link loadMatcher} before. */
export function matcherOf(query: LineQuery): LineMatcher {
  if (isTextSearch(query)) return new TextMatcher(query)
  const source = isPlain(query) ? quoted(query.pattern) : query.pattern
  // A malformed pattern is shown without the additions.
  if (!isPlain(query)) compileRegularExpression(source, { ignoreCase: false, atLines: false, dotAll: false })
  return query.multiline ? new SpanMatcher(source, query) : new ExpressionMatcher(source, query)
}

/** Searches text byte by byte. */
class TextMatcher implements LineMatcher {
  readonly mostBytes = limits.textFileBytes
  readonly #wanted: string
  readonly #bytes: Buffer | undefined
  readonly #ignoreCase: boolean
  readonly #wholeWord: boolean

  constructor({ pattern, ignoreCase, wholeWord }: LineQuery) {
    this.#ignoreCase = ignoreCase
    this.#wholeWord = wholeWord
    this.#wanted = ignoreCase ? pattern.toLowerCase() : encodeText(pattern)
    this.#bytes = ignoreCase ? undefined : Buffer.from(pattern)
  }

  open(bytes: Buffer): SearchedText | undefined {
    const wanted = this.#bytes
    const isShort = bytes.length * this.#wanted.length <= limits.indexOfComparisons
    if (wanted !== undefined && isShort && !bytes.includes(wanted)) return undefined
    return { text: bytes.toString('latin1'), decode: decodeText }
  }

  *find(text: string, limit: number): Steps<MatchedLine[], undefined> {
    const searched = this.#ignoreCase ? lowerAscii(text) : text
    if (searched.length * this.#wanted.length > limits.indexOfComparisons) {
      const places = (yield* findAll(searched, this.#wanted))[Symbol.iterator]()
      let place = places.next()
      return yield* this.#lines(text, limit, (from) => {
        while (place.done !== true && place.value < from) place = places.next()
        return place.done === true ? -1 : place.value
      })
    }
    return yield* this.#lines(text, limit, (from) => searched.indexOf(this.#wanted, from))
  }

  *#lines(text: string, limit: number, next: (from: number) => number): Steps<MatchedLine[], undefined> {
    const lines: MatchedLine[] = []
    let steps = 0
    for (let at = next(0); at >= 0 && lines.length < limit;) {
      if (++steps % limits.visitsPerLook === 0) yield
      if (this.#wholeWord && !isWord(text, at, at + this.#wanted.length)) {
        at = next(at + 1)
        continue
      }
      const line = lineAround(text, at)
      lines.push({ ...line, match: at })
      at = line.end >= text.length ? -1 : next(line.end + 1)
    }
    return lines
  }
}

function lowerAscii(text: string): string {
  // Lower case changes no byte of ASCII into another letter, and the other bytes match nothing.
  return text.toLowerCase()
}

function isWord(text: string, start: number, end: number): boolean {
  return !isWordCode(text.charCodeAt(start - 1)) && !isWordCode(text.charCodeAt(end))
}

function isWordCode(code: number): boolean {
  return (
    (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122)
  )
}

function lineAround(text: string, at: number): { start: number; end: number } {
  const start = at === 0 ? 0 : text.lastIndexOf('\n', at - 1) + 1
  const end = text.indexOf('\n', at)
  return { start, end: end < 0 ? text.length : end }
}

/** Matches a regular expression against each line. */
class ExpressionMatcher implements LineMatcher {
  readonly mostBytes = limits.textFileBytes
  readonly #line: RegularExpression
  /** Matches a text of several lines if one of them matches, and perhaps others. Undefined if that is not sure. */
  readonly #lines: RegularExpression | undefined
  /** The most characters of a line that are matched. */
  readonly #lineLength: number
  /** The most characters that are matched before the clock is looked at. */
  readonly #lengthPerLook: number

  constructor(pattern: string, { ignoreCase, wholeWord }: LineQuery) {
    const options = { ignoreCase, wholeWord, dotAll: false }
    this.#line = compileRegularExpression(pattern, { ...options, atLines: false })
    const { size } = this.#line
    this.#lineLength = Math.min(limits.grepLineLength, Math.floor(limits.grepLineSteps / size))
    this.#lengthPerLook = Math.min(limits.charactersPerLook, Math.floor(limits.grepStepsPerLook / size))
    const isSure = !/\\[AzZ]|\(\?[a-zA-Z]*-/.test(pattern)
    if (isSure) this.#lines = compileRegularExpression(pattern, { ...options, atLines: true })
  }

  open(bytes: Buffer): SearchedText {
    return { text: bytes.toString('utf8'), decode: (part) => part }
  }

  *find(text: string, limit: number): Steps<MatchedLine[], undefined> {
    const found: MatchedLine[] = []
    for (let start = 0; start < text.length && found.length < limit;) {
      const end = endOfLines(text, start, this.#lengthPerLook)
      yield
      if (this.#mayMatch(text.slice(start, end))) yield* this.#inLines(text, { start, end }, { found, limit })
      start = end
    }
    return found
  }

  #mayMatch(lines: string): boolean {
    if (this.#lines === undefined || lines.length > this.#lineLength) return true
    return this.#lines.test(lines.includes('\r\n') ? lines.replaceAll('\r\n', '\n') : lines)
  }

  *#inLines(
    text: string,
    range: { readonly start: number; readonly end: number },
    { found, limit }: { readonly found: MatchedLine[]; readonly limit: number },
  ): Steps<void, undefined> {
    let steps = 0
    for (let start = range.start; start < range.end && found.length < limit;) {
      const lineFeed = text.indexOf('\n', start)
      const end = lineFeed < 0 ? text.length : lineFeed
      const stop = lineFeed > start && text.charCodeAt(end - 1) === 13 ? end - 1 : end
      const line = text.slice(start, Math.min(stop, start + this.#lineLength))
      steps += line.length + 1
      if (steps > this.#lengthPerLook) {
        steps = 0
        yield
      }
      if (this.#line.test(line))
        found.push({ start, end, match: start + (this.#line.find(line, 0)?.start ?? 0) })
      start = end + 1
    }
  }
}

/** The end of whole lines with about as many characters. */
function endOfLines(text: string, start: number, length: number): number {
  const end = text.indexOf('\n', start + length)
  return end < 0 ? text.length : end + 1
}

/** Matches a regular expression against the whole text. Each line of a match counts as a matching line. */
class SpanMatcher implements LineMatcher {
  readonly mostBytes: number
  readonly #expression: RegularExpression

  constructor(pattern: string, { ignoreCase, wholeWord }: LineQuery) {
    this.#expression = compileRegularExpression(pattern, {
      ignoreCase,
      wholeWord,
      atLines: true,
      dotAll: true,
    })
    // A match is found in one piece, without a look at the clock.
    const { size } = this.#expression
    this.mostBytes = Math.min(limits.grepMultilineBytes, Math.floor(limits.grepMultilineSteps / size))
  }

  open(bytes: Buffer): SearchedText {
    const text = bytes.toString('utf8')
    return { text: text.includes('\r\n') ? text.replaceAll('\r\n', '\n') : text, decode: (part) => part }
  }

  *find(text: string, limit: number): Steps<MatchedLine[], undefined> {
    const found: MatchedLine[] = []
    if (!this.#expression.test(text)) return found
    for (let from = 0; from <= text.length && found.length < limit;) {
      yield
      const match = this.#expression.find(text, from)
      if (match === undefined || (match.start >= text.length && text.length > 0)) break
      let next = match.end
      for (let at = match.start; at < Math.max(match.end, match.start + 1) && found.length < limit;) {
        const line = lineAround(text, at)
        found.push({ ...line, match: at })
        at = line.end + 1
        next = at
      }
      from = Math.max(next, from + 1)
    }
    return found
  }
}
