import type { Buffer } from 'node:buffer'
import type { Steps } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import { isBinary } from '../../text/byte-text.js'
import { cutLine } from '../../text/line-text.js'
import type { ContentLine, ContentMatches } from './grep-cache.js'
import type { LineQuery } from './grep-request.js'
import type { LineMatcher, MatchedLine, SearchedText } from './line-matcher.js'

/** Searches one content. A binary content has no matches. */
export function* searchContent(
  bytes: Buffer,
  matcher: LineMatcher,
  query: LineQuery,
): Steps<ContentMatches | 'none', undefined> {
  if (isBinary(bytes)) return 'none'
  const hasBom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  const opened = matcher.open(hasBom ? bytes.subarray(3) : bytes)
  if (opened === undefined) return 'none'
  const limit = query.mode === 'files' ? 1 : query.maxCount
  const found = yield* matcher.find(opened.text, limit)
  if (found.length === 0) return 'none'
  if (query.mode !== 'lines') return { matchCount: found.length, lines: [] }
  return { matchCount: found.length, lines: yield* describe(opened, found, query) }
}

/** The matching lines with their context. */
function* describe(
  opened: SearchedText,
  found: readonly MatchedLine[],
  query: LineQuery,
): Steps<ContentLine[], undefined> {
  const writer = new LineWriter(opened, query)
  for (const [index, line] of found.entries()) {
    if (index % limits.visitsPerLook === 0) yield
    writer.match(line)
    writer.after(found[index + 1]?.start ?? Number.POSITIVE_INFINITY)
  }
  return writer.lines
}

class LineWriter {
  readonly lines: ContentLine[] = []
  readonly #text: string
  readonly #decode: (part: string) => string
  readonly #query: LineQuery
  /** The number of the line that begins at `#counted`. */
  #lineNumber = 1
  #counted = 0
  /** The end of the last line that was written. */
  #written = 0

  constructor({ text, decode }: SearchedText, query: LineQuery) {
    this.#text = text
    this.#decode = decode
    this.#query = query
  }

  match(line: MatchedLine): void {
    const starts: number[] = []
    for (let start = line.start; starts.length < this.#query.before && start > this.#written;) {
      start = start < 2 ? 0 : this.#text.lastIndexOf('\n', start - 2) + 1
      if (start < this.#written) break
      starts.push(start)
    }
    for (const start of starts.reverse()) this.#write(start, this.#endOf(start), 0)
    this.#write(line.start, line.end, 1 + this.#decode(this.#text.slice(line.start, line.match)).length)
  }

  /** Writes context after the last line, up to the next match. */
  after(next: number): void {
    for (let count = 0; count < this.#query.after; count++) {
      const start = this.#written
      if (start >= this.#text.length || start >= next) return
      this.#write(start, this.#endOf(start), 0)
    }
  }

  #endOf(start: number): number {
    const end = this.#text.indexOf('\n', start)
    return end < 0 ? this.#text.length : end
  }

  #write(start: number, end: number, column: number): void {
    for (let at = this.#text.indexOf('\n', this.#counted); at >= 0 && at < start;) {
      this.#lineNumber++
      this.#counted = at + 1
      at = this.#text.indexOf('\n', this.#counted)
    }
    const hasCarriageReturn = end < this.#text.length && this.#text.charCodeAt(end - 1) === 13
    const stop = hasCarriageReturn && end > start ? end - 1 : end
    // One byte is one character of the text at most.
    const bytes = Math.min(stop, start + 3 * this.#query.maxLineLength + 3)
    const { text, isTruncated } = cutLine(
      this.#decode(this.#text.slice(start, bytes)),
      this.#query.maxLineLength,
    )
    this.lines.push({
      lineNumber: this.#lineNumber,
      column,
      text,
      isMatch: column > 0,
      isTruncated: isTruncated || bytes < stop,
    })
    this.#written = end + 1
  }
}
