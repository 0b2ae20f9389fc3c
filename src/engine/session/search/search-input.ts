import { invalid } from '../../base/errors.js'
import { parseGlob, type Glob } from '../../base/glob.js'
import { given, readList, tooLarge } from '../../base/input.js'
import { limits } from '../../base/limits.js'

/** Checks an optional whole number. */
export function parseCount(
  field: string,
  value: unknown,
  { least, most, fallback }: { readonly least: number; readonly most: number; readonly fallback: number },
): number {
  if (value === undefined) return fallback
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most)
    return value
  throw invalid(field, `must be a whole number from ${least} to ${most}; it is ${given(value)}`)
}

/** Checks an optional number of lines around a match or a change. */
export function parseContextLines(field: string, value: unknown, fallback: number): number {
  return parseCount(field, value, { least: 0, most: limits.contextLines, fallback })
}

/** Checks an optional value that is one of a few strings. */
export function parseChoice<Choice extends string>(
  field: string,
  value: unknown,
  choices: readonly [Choice, ...Choice[]],
): Choice {
  if (value === undefined) return choices[0]
  const chosen = choices.find((choice) => choice === value)
  if (chosen !== undefined) return chosen
  throw invalid(field, `must be one of ${choices.map(given).join(', ')}; it is ${given(value)}`)
}

/** A list of globs of a request, as strings. */
export function readGlobs(field: string, list: unknown): string[] {
  if (list === undefined) return []
  let size = 0
  return readList(field, list, limits.searchGlobs, 'patterns').map((pattern, index) => {
    if (typeof pattern !== 'string' || pattern === '')
      throw invalid(`${field}[${index}]`, `must be a glob such as "**/*.ts"; it is ${given(pattern)}`)
    size += pattern.length
    if (size > limits.searchGlobsSize)
      throw tooLarge(field, 'characters in all patterns', limits.searchGlobsSize)
    return pattern
  })
}

/** A glob for whole paths without their first slash. A relative pattern begins at a directory of the session. */
export function globFrom(directory: string, pattern: string, field: string): Glob {
  if (pattern.startsWith('/')) return parseGlob(pattern.replace(/^\/+/, ''), field)
  const relative = pattern.replace(/^(?:\.\/+)+/, '')
  if (/(?:^|\/)\.\.(?:\/|$)/.test(relative))
    throw invalid(
      field,
      `must not have the part ".."; begin the pattern with "/" instead. It is ${given(pattern)}`,
    )
  const base = directory === '/' ? '' : `${escaped(directory.slice(1))}/`
  return parseGlob(`${base}${relative}`, field)
}

function escaped(path: string): string {
  return path.replaceAll(/[\\*?[\]{}()!+@,|]/g, String.raw`\$&`)
}
