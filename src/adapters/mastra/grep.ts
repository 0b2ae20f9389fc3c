import { posix } from 'node:path'
import {
  UnsupportedGrepPatternError,
  type FilesystemGrepMatch,
  type FilesystemGrepOptions,
  type FilesystemGrepResult,
} from '@mastra/core/workspace'
import type { GrepLine, SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid, untilAborted } from '../../engine/ports.js'
import { limits } from './limits.js'

/**
 * Searches a session. A pattern with look-around or back-references is not for its engine of regular expressions, RE2:
 * Mastra then searches by itself.
 */
export async function grep(
  session: SessionApi,
  root: string,
  options: FilesystemGrepOptions,
  signal: AbortSignal | undefined,
): Promise<FilesystemGrepResult[]> {
  const {
    pattern,
    caseSensitive,
    includeHidden,
    maxCountPerFile,
    maxTotalMatches,
    contextLines = 0,
  } = options
  if (typeof pattern !== 'string') throw invalid('pattern', `must be a text; it is ${given(pattern)}`)
  const most = Math.min(count('maxTotalMatches', maxTotalMatches, 1) ?? limits.matches, limits.matches)
  const maxCount = count('maxCountPerFile', maxCountPerFile, 1)
  const context = Math.min(count('contextLines', contextLines, 0) ?? 0, limits.contextLines)
  // Results have the real path of the root.
  const { path, kind } = await untilAborted(session.files.stat({ path: root }), signal)
  const base = kind === 'directory' ? path : posix.dirname(path)
  const lines = await searched(
    session,
    {
      pattern,
      path,
      ignoreCase: !caseSensitive,
      excludeGlobs: includeHidden ? [] : ['.*'],
      ...(maxCount !== undefined && { maxCount }),
      context,
      maxLineLength: limits.lineLength,
    },
    most,
    signal,
  )
  return resultsOf(lines, base, context)
}

type Search = Parameters<SessionApi['text']['grep']>[0]

async function searched(
  session: SessionApi,
  request: Search,
  most: number,
  signal: AbortSignal | undefined,
): Promise<GrepLine[]> {
  const lines: GrepLine[] = []
  const options = signal === undefined ? {} : { signal }
  let offset = 0
  let isComplete = false
  try {
    while (!isComplete && offset < most) {
      const limit = Math.min(most - offset, limits.matchesPerPage)
      const page = await untilAborted(session.text.grep({ ...request, offset, limit }, options), signal)
      for (const line of page.lines) lines.push(line)
      offset = page.nextOffset
      isComplete = !page.isTruncated
    }
  } catch (error) {
    if (error instanceof EngineError && error.details['field'] === 'pattern')
      throw new UnsupportedGrepPatternError(request.pattern, error.message)
    throw error
  }
  return lines
}

function resultsOf(lines: readonly GrepLine[], base: string, context: number): FilesystemGrepResult[] {
  const byPath = new Map<string, GrepLine[]>()
  for (const line of lines) {
    const known = byPath.get(line.path)
    if (known === undefined) byPath.set(line.path, [line])
    else known.push(line)
  }
  return [...byPath].map(([path, ofFile]) => ({
    path: posix.relative(base, path),
    matches: matchesOf(ofFile, context),
  }))
}

function matchesOf(lines: readonly GrepLine[], context: number): FilesystemGrepMatch[] {
  const texts = new Map(lines.map(({ lineNumber, text }) => [lineNumber, text]))
  return lines
    .filter(({ isMatch }) => isMatch)
    .map(({ lineNumber, column, text }) => {
      const match = { line: lineNumber, column: column - 1, text }
      if (context === 0) return match
      return {
        ...match,
        before: neighbours(texts, lineNumber, { step: -1, most: context }).toReversed(),
        after: neighbours(texts, lineNumber, { step: 1, most: context }),
      }
    })
}

/** The lines next to a line in one direction, nearest first. */
function neighbours(
  texts: ReadonlyMap<number, string>,
  line: number,
  { step, most }: { readonly step: 1 | -1; readonly most: number },
): string[] {
  const found: string[] = []
  for (let distance = 1; distance <= most; distance++) {
    const text = texts.get(line + step * distance)
    if (text === undefined) break
    found.push(text)
  }
  return found
}

function count(field: string, value: unknown, least: number): number | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'number' || Number.isNaN(value) || value < least)
    throw invalid(field, `must be a number from ${least}; it is ${given(value)}`)
  return Math.min(Math.floor(value), limits.matches)
}
