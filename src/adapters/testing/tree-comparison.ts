import { given, invalid, readEntries } from '../../engine/index.js'
import { testingLimits } from './limits.js'
import { readTree, type WithFs } from './tree-json.js'

/**
 * The expected content of a path:
 * - text or bytes: a file with exactly this content;
 * - a regular expression: a file whose text it matches;
 * - an asymmetric matcher of a test runner, such as `expect.stringContaining('port')`: a file whose text it accepts;
 * - null: an empty directory.
 */
export type ExpectedContent = string | Uint8Array | RegExp | AsymmetricMatcher | null

/** A matcher of Vitest or Jest that accepts many values, such as `expect.any(String)`. */
export interface AsymmetricMatcher {
  /** Whether the matcher accepts the value. */
  asymmetricMatch(value: unknown): boolean
}

/** Expected contents by path. Relative paths start at the path that is compared. */
export type ExpectedTree = Readonly<Record<string, ExpectedContent>>

/** Which part of a tree is compared. */
export interface TreeScope {
  /** The directory that is compared, and from which relative paths start; `/` by default. */
  readonly at?: string
  /** true: paths that are not expected may exist too; false by default. */
  readonly contains?: boolean
}

/** The differences between a tree and the expected one, as lines of text. Empty if there are none. */
export async function differencesFrom(
  expected: ExpectedTree,
  session: WithFs,
  { at = '/', contains = false }: TreeScope,
): Promise<string[]> {
  if (typeof expected !== 'object' || expected === null)
    throw invalid('expected', `must be an object of contents by their paths; it is ${given(expected)}`)
  const { start: found, files: actual } = await readTree(session, at)
  const start = absolute(found, '/')
  const lines: string[] = []
  const wanted = new Set<string>()
  const entries = readEntries('expected', expected, 'must be an object of contents by their paths')
  for (const [name, content] of entries as [string, ExpectedTree[string]][]) {
    const path = absolute(name, start)
    if (path !== start && !path.startsWith(start === '/' ? '/' : `${start}/`))
      throw invalid('expected', `must have paths at or below ${start}; it has ${given(name)}`)
    wanted.add(path)
    const bytes = actual.get(path)
    if (bytes === undefined) lines.push(`missing: ${path}`)
    else lines.push(...difference(path, content, bytes))
  }
  if (!contains) for (const path of actual.keys()) if (!wanted.has(path)) lines.push(`unexpected: ${path}`)
  return lines
}

/** The differences between the files of two sessions, as lines of text. */
export async function differencesBetween(expected: WithFs, session: WithFs, at = '/'): Promise<string[]> {
  const { start, files } = await readTree(expected, at)
  const tree = Object.fromEntries(
    [...files].map(([path, content]) => [path.slice(start === '/' ? 1 : start.length + 1), content]),
  ) as ExpectedTree
  return differencesFrom(tree, session, { at })
}

/** The differences as one text. A long list is cut off. */
export function describeDifferences(lines: readonly string[], at = '/'): string {
  const shown = lines.slice(0, testingLimits.shownDifferences)
  const more = lines.length - shown.length
  return [
    `the files at ${at} differ from the expected ones:`,
    ...shown,
    ...(more > 0 ? [`… ${more} more`] : []),
  ]
    .map((line, index) => (index === 0 ? line : `  ${line.replaceAll('\n', '\n  ')}`))
    .join('\n')
}

function absolute(name: string, start: string): string {
  const path = name.startsWith('/') ? name : `${start}/${name}`
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return `/${parts.join('/')}`
}

function difference(path: string, expected: ExpectedContent, actual: Buffer | null): string[] {
  if (expected === null) return actual === null ? [] : [`not an empty directory: ${path}`]
  if (actual === null) return [`a directory, not a file: ${path}`]
  if (expected instanceof Uint8Array)
    return actual.equals(expected)
      ? []
      : [`other bytes: ${path} (expected ${expected.byteLength} bytes, found ${actual.byteLength})`]
  const text = actual.toString('utf8')
  if (typeof expected === 'string') return text === expected ? [] : [differentText(path, expected, text)]
  if (expected instanceof RegExp)
    return new RegExp(expected.source, expected.flags.replace(/[gy]/g, '')).test(text)
      ? []
      : [`no match for ${String(expected)}: ${path}\n  found ${excerpt(text)}`]
  if (typeof expected === 'object' && typeof expected.asymmetricMatch === 'function')
    return expected.asymmetricMatch(text)
      ? []
      : [`not accepted by the matcher: ${path}\n  found ${excerpt(text)}`]
  throw invalid(
    'expected',
    `must have text, bytes, a regular expression, a matcher or null for ${path}; it has ${given(expected)}`,
  )
}

function differentText(path: string, expected: string, actual: string): string {
  const [wanted, found] = [expected.split('\n'), actual.split('\n')]
  let line = 0
  while (line < wanted.length && line < found.length && wanted[line] === found[line]) line++
  return [
    `other content: ${path}, from line ${line + 1} on`,
    `  expected ${excerpt(wanted[line])}`,
    `  found    ${excerpt(found[line])}`,
  ].join('\n')
}

function excerpt(text: string | undefined): string {
  if (text === undefined) return 'the end of the file'
  const shown = JSON.stringify(text.slice(0, testingLimits.shownCharacters))
  return text.length > testingLimits.shownCharacters ? `${shown}…` : shown
}
