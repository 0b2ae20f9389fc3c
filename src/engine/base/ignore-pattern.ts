import { Buffer } from 'node:buffer'
import type { CharacterSet, Piece } from './glob-pattern.js'
import { itemAt } from './present.js'
import { wildcardMatcher } from './wildcard.js'

/** One line of a `.gitignore` file. Names and paths are given by {@link bytesOf}, because git compares bytes. */
export interface IgnorePattern {
  /** Whether the line begins with `!`: a path that matches is not ignored. */
  readonly negated: boolean
  /** Whether only directories match. */
  readonly directoryOnly: boolean
  /** Whether a path matches. `path` is relative to the directory of the file, and `name` is its last part. */
  readonly matches: (path: string, name: string) => boolean
}

/** A text with one character for each byte of its UTF-8 form. */
export function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** The patterns of a file `.gitignore`, as git reads it: https://git-scm.com/docs/gitignore. */
export function parseIgnoreFile(content: Uint8Array): IgnorePattern[] {
  const text = Buffer.from(content).toString('latin1')
  const start = text.startsWith('\xef\xbb\xbf') ? 3 : 0
  return text
    .slice(start)
    .split('\n')
    .flatMap((line) => parseLine(line.endsWith('\r') ? line.slice(0, -1) : line) ?? [])
}

/** A pattern as on a line of `.gitignore`; undefined for a comment or an empty line. */
export function parseIgnorePattern(pattern: string): IgnorePattern | undefined {
  return parseLine(bytesOf(pattern))
}

function parseLine(line: string): IgnorePattern | undefined {
  if (line === '' || line.startsWith('#')) return undefined
  const [text = ''] = line.split('\0', 1)
  let pattern = trimSpaces(text)
  const negated = pattern.startsWith('!')
  if (negated) pattern = pattern.slice(1)
  const directoryOnly = pattern.endsWith('/')
  if (directoryOnly) pattern = pattern.slice(0, -1)
  const matches = pattern.includes('/') ? pathMatcher(pattern) : nameMatcher(pattern)
  return { negated, directoryOnly, matches }
}

/** Removes the spaces at the end, except after a backslash. */
function trimSpaces(line: string): string {
  let end = 0
  for (let i = 0; i < line.length; i++) {
    if (line[i] === '\\') end = Math.min(line.length, ++i + 1)
    else if (line[i] !== ' ') end = i + 1
  }
  return line.slice(0, end)
}

function nameMatcher(pattern: string): IgnorePattern['matches'] {
  if (!special.test(pattern)) return (_path, name) => name === pattern
  const parts = tokenize(pattern, false)
  const [only] = parts ?? []
  if (only === undefined) return never
  const matches = wildcardMatcher(only.pieces)
  return (_path, name) => matches(name)
}

function pathMatcher(pattern: string): IgnorePattern['matches'] {
  const anchored = pattern.startsWith('/') ? pattern.slice(1) : pattern
  const wild = anchored.search(special)
  if (wild < 0) return (path) => path === anchored
  // Git compares the text before the first wildcard on its own. The rest may therefore begin with a `**`.
  const prefix = anchored.slice(0, wild)
  const parts = tokenize(anchored.slice(wild), true)
  if (parts === undefined) return never
  const steps = parts
    // Several `**` match what one matches.
    .filter(({ globstar }, index) => !globstar || parts[index - 1]?.globstar !== true)
    .map(({ pieces, globstar }) => (globstar ? undefined : wildcardMatcher(pieces)))
  return (path) => path.startsWith(prefix) && matchParts(steps, path.slice(prefix.length).split('/'))
}

const never = (): boolean => false
const special = /[*?[\\]/

/**
 * Whether the parts of a path match, one after the other. `undefined` is a `**`, which matches any number of
 * parts; at the end, at least one. The time is at most the product of both lengths.
 */
function matchParts(
  steps: readonly (((text: string) => boolean) | undefined)[],
  parts: readonly string[],
): boolean {
  // Each step but a `**` matches one part.
  if (steps.length > 2 * parts.length + 1) return false
  /** The numbers of parts that the steps so far can match. */
  let reached = new Set([0])
  for (const [index, step] of steps.entries()) {
    const next = new Set<number>()
    if (step === undefined) {
      const first = Math.min(...reached) + (index === steps.length - 1 ? 1 : 0)
      for (let count = first; count <= parts.length; count++) next.add(count)
    } else
      for (const count of reached) if (count < parts.length && step(itemAt(parts, count))) next.add(count + 1)
    if (next.size === 0) return false
    reached = next
  }
  return reached.has(parts.length)
}

interface Part {
  readonly pieces: Piece[]
  /** Whether the part is a `**`. */
  globstar: boolean
}

/** The parts of a pattern between its slashes. Undefined if git never matches the pattern. */
function tokenize(pattern: string, paths: boolean): Part[] | undefined {
  let part: Part = { pieces: [], globstar: false }
  const parts = [part]
  for (let i = 0; i < pattern.length; i++) {
    let character = itemAt(pattern, i)
    if (character === '*') {
      const start = i
      while (pattern[i + 1] === '*') i++
      const isWhole =
        part.pieces.length === 0 && (i + 1 === pattern.length || /^\\?\//.test(pattern.slice(i + 1, i + 3)))
      if (paths && i > start && isWhole) part.globstar = true
      part.pieces.push({ type: 'star' })
    } else if (character === '?') part.pieces.push({ type: 'any' })
    else if (character === '[') {
      const parsed = parseSet(pattern, i)
      if (parsed === undefined) return undefined
      part.pieces.push({ type: 'set', set: parsed.set })
      i = parsed.end
    } else {
      if (character === '\\') {
        if (++i === pattern.length) return undefined
        character = itemAt(pattern, i)
      }
      if (paths && character === '/') parts.push((part = { pieces: [], globstar: false }))
      else part.pieces.push({ type: 'literal', code: character.charCodeAt(0) })
    }
  }
  return parts
}

/** The set that opens here, and the position of its end, by the rules of git's `wildmatch.c`. */
function parseSet(
  pattern: string,
  open: number,
): { readonly set: CharacterSet; readonly end: number } | undefined {
  let i = open + 1
  const negated = pattern[i] === '!' || pattern[i] === '^'
  if (negated) i++
  const ranges: [first: number, last: number][] = []
  /** The character before this one, from which a range may begin. */
  let before: number | undefined
  for (let first = true; first || pattern[i] !== ']'; first = false, i++) {
    const named = pattern[i] === '[' && pattern[i + 1] === ':' ? pattern.indexOf(']', i + 2) : undefined
    if (named === -1 || i >= pattern.length) return undefined
    if (pattern[i] === '-' && before !== undefined && i + 1 < pattern.length && pattern[i + 1] !== ']') {
      const last = codeAt(pattern[++i] === '\\' ? ++i : i)
      if (last === undefined) return undefined
      ranges.push([before, last])
      before = undefined
    } else if (named !== undefined && named > i + 2 && pattern[named - 1] === ':') {
      const known = namedClasses[pattern.slice(i + 2, named - 1)]
      if (known === undefined) return undefined
      ranges.push(...known)
      before = undefined
      i = named
    } else {
      before = codeAt(pattern[i] === '\\' ? ++i : i)
      if (before === undefined) return undefined
      ranges.push([before, before])
    }
  }
  return { set: { negated, ranges, classes: new Set() }, end: i }

  function codeAt(at: number): number | undefined {
    return at < pattern.length ? pattern.charCodeAt(at) : undefined
  }
}

const digits: [number, number] = [48, 57]
const uppers: [number, number] = [65, 90]
const lowers: [number, number] = [97, 122]

/** Git knows these classes for ASCII only. */
const namedClasses: Readonly<Record<string, [first: number, last: number][]>> = {
  __proto__: null as never,
  alnum: [digits, uppers, lowers],
  alpha: [uppers, lowers],
  blank: [
    [9, 9],
    [32, 32],
  ],
  cntrl: [
    [0, 31],
    [127, 127],
  ],
  digit: [digits],
  graph: [[33, 126]],
  lower: [lowers],
  print: [[32, 126]],
  punct: [
    [33, 47],
    [58, 64],
    [91, 96],
    [123, 126],
  ],
  space: [
    [9, 13],
    [32, 32],
  ],
  upper: [uppers],
  xdigit: [digits, [65, 70], [97, 102]],
}
