import type { RE2JS } from 're2js'
import { invalid, messageOf } from '../base/errors.js'
import { limits } from '../base/limits.js'

/** A regular expression whose matches take time in proportion to the text. */
export interface RegularExpression {
  /** The number of instructions. A match takes at most as many steps for each character. */
  readonly size: number
  /** Whether the text has a match. */
  test: (text: string) => boolean
  /** The first match at or after a position, as positions of UTF-16 units. */
  find: (text: string, from: number) => { readonly start: number; readonly end: number } | undefined
}

/** Options of a regular expression. */
export interface RegularExpressionOptions {
  readonly ignoreCase: boolean
  /** Whether `^` and `$` match at every line. */
  readonly atLines: boolean
  /** Whether `.` matches a line end. */
  readonly dotAll: boolean
  /** Whether a letter, digit or underscore of ASCII must not touch a match; false by default. */
  readonly wholeWord?: boolean
}

type Engine = typeof RE2JS

let engine: Engine | undefined
let loading: Promise<Engine> | undefined

/** Loads the engine of regular expressions on first use. */
export async function loadRegularExpressions(): Promise<void> {
  engine = await (loading ??= import('re2js').then((module) => module.RE2JS))
}

/** The pattern that matches a text literally. */
export function quoted(text: string): string {
  return loaded().quote(text)
}

/**
 * Compiles a pattern in the syntax of RE2. Call {@link loadRegularExpressions} before.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the pattern is malformed or too complex.
 */
export function compileRegularExpression(
  pattern: string,
  { ignoreCase, atLines, dotAll, wholeWord = false }: RegularExpressionOptions,
): RegularExpression {
  const re2 = loaded()
  const flags =
    (ignoreCase ? re2.CASE_INSENSITIVE : 0) | (atLines ? re2.MULTILINE : 0) | (dotAll ? re2.DOTALL : 0)
  let compiled: RE2JS
  try {
    // A match has the characters around the word too. The word is the first group.
    compiled = re2.compile(wholeWord ? String.raw`(?:^|\W)(${pattern})(?:\W|$)` : pattern, flags)
  } catch (cause) {
    throw invalid(
      'pattern',
      `is no regular expression of RE2: ${messageOf(cause)}. Pass literal: true to search for the text itself`,
    )
  }
  const size = compiled.programSize()
  if (size > limits.grepProgramSize)
    throw invalid(
      'pattern',
      `is too complex: it compiles to ${size} instructions, and ${limits.grepProgramSize} are allowed`,
    )
  const group = wholeWord ? 1 : 0
  return {
    size,
    test: (text) => compiled.test(text),
    find: (text, from) => {
      const matcher = compiled.matcher(text)
      return matcher.find(from) ? { start: matcher.start(group), end: matcher.end(group) } : undefined
    },
  }
}

function loaded(): Engine {
  if (engine === undefined) throw new Error('the engine of regular expressions is not loaded')
  return engine
}
