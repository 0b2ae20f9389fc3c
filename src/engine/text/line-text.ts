import { limits } from '../base/limits.js'

/** The start of a line with at most `length` UTF-16 units. It does not end inside of a character. */
export function cutLine(
  line: string,
  length: number,
): { readonly text: string; readonly isTruncated: boolean } {
  if (line.length <= length) return { text: line, isTruncated: false }
  const last = line.charCodeAt(length - 1)
  const end = last >= 0xd800 && last < 0xdc00 ? length - 1 : length
  return { text: line.slice(0, end), isTruncated: true }
}

/** The most bytes that so many UTF-16 units take in UTF-8. */
export function bytesOfUnits(units: number): number {
  return 3 * Math.min(units, limits.lineLength)
}

/** A line for {@link formatNumberedLines}. */
export interface NumberedText {
  /** The number of the line, from 1. */
  readonly lineNumber: number
  /** The text without its line ending. */
  readonly text: string
}

/**
 * Lines with their numbers in front, as `cat -n` prints them: the number in six columns, a tab, the text.
 *
 * @example
 * const { lines } = await session.text.readLines({ path: '/src/a.ts' })
 * console.log(formatNumberedLines(lines))
 */
export function formatNumberedLines(lines: readonly NumberedText[]): string {
  return lines.map(({ lineNumber, text }) => `${String(lineNumber).padStart(6)}\t${text}`).join('\n')
}

/** A line for {@link formatMatches}. */
export interface MatchedText extends NumberedText {
  /** The path of the file. */
  readonly path: string
  /** Whether the line matches. Otherwise it is context. */
  readonly isMatch: boolean
}

/**
 * The lines of a search as `grep -n` prints them: `path:line:text` for a match, `path-line-text` for a line of
 * context, and `--` between groups of lines.
 *
 * @example
 * const { lines } = await session.text.grep({ pattern: 'TODO', context: 1 })
 * console.log(formatMatches(lines))
 */
export function formatMatches(lines: readonly MatchedText[]): string {
  const hasContext = lines.some(({ isMatch }) => !isMatch)
  const printed: string[] = []
  let before: MatchedText | undefined
  for (const line of lines) {
    const follows = before?.path === line.path && before.lineNumber + 1 === line.lineNumber
    if (hasContext && before !== undefined && !follows) printed.push('--')
    const sign = line.isMatch ? ':' : '-'
    printed.push(`${line.path}${sign}${line.lineNumber}${sign}${line.text}`)
    before = line
  }
  return printed.join('\n')
}
