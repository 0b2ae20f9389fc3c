import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { decodeText, type ByteText } from './byte-text.js'

/** A line of a file, by its number from 1. */
export interface NumberedLine {
  readonly lineNumber: number
  readonly text: string
}

/**
 * The lines of a text that are most like the wanted lines. First come runs that have wanted lines, without regard to
 * white space at their ends; otherwise the line that shares most pairs of characters with the first wanted line.
 */
export function* nearestLines(
  lines: readonly ByteText[],
  wanted: readonly ByteText[],
): Steps<NumberedLine[], undefined> {
  const start = (yield* startOfRun(lines, wanted)) ?? (yield* mostSimilar(lines, wanted))
  if (start === undefined) return []
  const from = Math.max(0, start)
  return lines
    .slice(from, from + Math.min(limits.nearestLines, Math.max(1, wanted.length)))
    .map((text, index) => ({ lineNumber: from + index + 1, text: shownLine(text) }))
}

/** The lines for the end of an error message. */
export function describeNearest(nearest: readonly NumberedLine[]): string {
  if (nearest.length === 0) return 'no line of the file is similar'
  const shown = nearest.map(({ lineNumber, text }) => `${lineNumber}: ${JSON.stringify(text)}`)
  return `the nearest lines are ${shown.join(', ')}`
}

function shownLine(text: ByteText): string {
  const line = text.endsWith('\r') ? text.slice(0, -1) : text
  const shown = decodeText(line.slice(0, limits.nearestLineLength))
  return line.length > limits.nearestLineLength ? `${shown}…` : shown
}

/** The index at which most of the wanted lines are in their places. */
function* startOfRun(
  lines: readonly ByteText[],
  wanted: readonly ByteText[],
): Steps<number | undefined, undefined> {
  const places = new Map<ByteText, number>()
  for (const [index, line] of wanted.slice(0, limits.comparedLines).entries()) {
    const trimmed = line.trim()
    if (trimmed !== '' && !places.has(trimmed)) places.set(trimmed, index)
  }
  const counts = new Map<number, number>()
  let best: number | undefined
  for (const [index, line] of lines.entries()) {
    if (index % limits.charactersPerLook === 0) yield
    const place = places.get(line.trim())
    if (place === undefined) continue
    const start = index - place
    const count = (counts.get(start) ?? 0) + 1
    counts.set(start, count)
    if (best === undefined || count > (counts.get(best) ?? 0)) best = start
  }
  return best
}

function* mostSimilar(
  lines: readonly ByteText[],
  wanted: readonly ByteText[],
): Steps<number | undefined, undefined> {
  const first = wanted.find((line) => line.trim() !== '')
  if (first === undefined) return undefined
  const pairs = pairsOf(first)
  let best: number | undefined
  let bestScore: number = limits.leastSimilarity
  for (const [index, line] of lines.entries()) {
    if (index >= limits.similarLines) break
    if (index % limits.visitsPerLook === 0) yield
    const score = similarity(pairs, pairsOf(line))
    if (score <= bestScore) continue
    best = index
    bestScore = score
  }
  return best
}

/** The pairs of neighbouring characters of a line, without white space around it. */
function pairsOf(line: ByteText): Set<number> {
  const text = line.slice(0, limits.nearestLineLength).trim()
  const pairs = new Set<number>()
  for (let at = 1; at < text.length; at++) pairs.add(text.charCodeAt(at - 1) * 256 + text.charCodeAt(at))
  return pairs
}

/** The coefficient of Dice: 1 for equal sets, 0 for disjoint ones. */
function similarity(a: ReadonlySet<number>, b: ReadonlySet<number>): number {
  if (a.size === 0 || b.size === 0) return 0
  let common = 0
  for (const pair of a) if (b.has(pair)) common++
  return (2 * common) / (a.size + b.size)
}
