import { invalid } from '../../base/errors.js'
import { given, parseFlag, parseText, readList } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { fileTypes } from '../../text/file-types.js'
import { parseChoice, parseContextLines, parseCount, readGlobs } from './search-input.js'

/** The request of `session.text.grep`. */
export interface GrepRequest {
  /**
   * A regular expression in the syntax of RE2, or with `literal` the text itself. 1 to 1,000 characters. It is matched
   * against each line without its line end.
   */
  readonly pattern: string
  /** Absolute path of a directory, or of a single file; `/` by default. Symlinks in the path are followed. */
  readonly path?: string
  /** true: the pattern is the text itself, and no regular expression; false by default. */
  readonly literal?: boolean
  /** true: upper and lower case are the same; false by default. */
  readonly ignoreCase?: boolean
  /** true: a match must not touch another letter, digit or underscore of ASCII; false by default. */
  readonly wholeWord?: boolean
  /**
   * Globs of files that are searched; by default all. A pattern without a slash is for names in any directory. Others
   * are for paths, as in `session.text.glob`.
   */
  readonly globs?: readonly string[]
  /** Globs of files and directories that are left out. */
  readonly excludeGlobs?: readonly string[]
  /** Types of files that are searched, such as `ts` or `md`; by default all. */
  readonly fileTypes?: readonly string[]
  /** Lines of context before and after each match, up to 100; 0 by default. */
  readonly context?: number
  /** Lines of context before each match; by default `context`. */
  readonly before?: number
  /** Lines of context after each match; by default `context`. */
  readonly after?: number
  /** The most matching lines of each file; by default all. */
  readonly maxCount?: number
  /** The most matching lines, or with another `mode` files, up to 10,000; 1,000 by default. */
  readonly limit?: number
  /** Matching lines, or with another `mode` files, that are skipped; 0 by default. */
  readonly offset?: number
  /** `'lines'`, the default: matching lines. `'files'`: only the paths. `'count'`: paths with the number of lines. */
  readonly mode?: GrepMode
  /** true: a match may have several lines, and `.` matches a line end; false by default. */
  readonly multiline?: boolean
  /** The most UTF-16 units of a line, up to 100,000; 2,000 by default. Longer lines are cut. */
  readonly maxLineLength?: number
}

/**
 * The form of the result of a search.
 *
 * @inline
 */
type GrepMode = 'lines' | 'files' | 'count'

/** A line of a search: a match, or context of one. */
export interface GrepLine {
  /** Absolute path in the session. */
  readonly path: string
  /** The number of the line in the file, from 1. */
  readonly lineNumber: number
  /** Where the first match begins, from 1, in UTF-16 units; 0 for a line of context. */
  readonly column: number
  /** The line without its line end. */
  readonly text: string
  /** false: a line of context. */
  readonly isMatch: boolean
  /** Whether the line is longer than `text`. */
  readonly isTruncated: boolean
}

/** A file with matches. */
export interface GrepFile {
  /** Absolute path in the session. */
  readonly path: string
  /** The number of matching lines, at most `maxCount`. With mode `'files'` it is 1. */
  readonly matchCount: number
}

/** The result of `session.text.grep`. */
export interface GrepResult {
  /** With mode `'lines'`: matching lines and their context, by path and line. Empty otherwise. */
  readonly lines: GrepLine[]
  /** With mode `'files'` or `'count'`: the files that match, by path. Empty otherwise. */
  readonly files: GrepFile[]
  /** Whether there are more results. Pass `nextOffset` as `offset` to get them. */
  readonly isTruncated: boolean
  /** The `offset` after these results. */
  readonly nextOffset: number
  /**
   * Files that were not searched because they have over 16 MiB. With `multiline` over 4 MiB, and less for a complex
   * pattern.
   */
  readonly skippedFileCount: number
}

/** Options of `session.text.glob` and `session.text.grep`. */
export interface SearchOptions {
  /** Ends the search, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

const shape = new Shape<GrepRequest>({
  pattern: true,
  path: true,
  literal: true,
  ignoreCase: true,
  wholeWord: true,
  globs: true,
  excludeGlobs: true,
  fileTypes: true,
  context: true,
  before: true,
  after: true,
  maxCount: true,
  limit: true,
  offset: true,
  mode: true,
  multiline: true,
  maxLineLength: true,
})

/** The part of a request that determines the matches of one content. */
export interface LineQuery {
  readonly pattern: string
  readonly literal: boolean
  readonly ignoreCase: boolean
  readonly wholeWord: boolean
  readonly multiline: boolean
  readonly mode: GrepMode
  readonly before: number
  readonly after: number
  readonly maxCount: number
  readonly maxLineLength: number
}

/** The part of a request that selects files. */
export interface FileFilter {
  readonly globs: readonly string[]
  readonly excludeGlobs: readonly string[]
  /** Ends of names; empty: all. */
  readonly nameEnds: readonly string[]
}

export interface ParsedGrep {
  readonly path: string
  readonly query: LineQuery
  readonly filter: FileFilter
  readonly limit: number
  readonly offset: number
}

/** Returns a checked copy of the request. */
export function parseGrep(request: GrepRequest): ParsedGrep {
  const copy = shape.read(request)
  const multiline = parseFlag('multiline', copy.multiline, false)
  const context = parseContextLines('context', copy.context, 0)
  const mode = parseChoice('mode', copy.mode, ['lines', 'files', 'count'])
  const isLines = mode === 'lines'
  return {
    path: copy.path ?? '/',
    query: {
      pattern: parsePattern(copy.pattern, multiline),
      literal: parseFlag('literal', copy.literal, false),
      ignoreCase: parseFlag('ignoreCase', copy.ignoreCase, false),
      wholeWord: parseFlag('wholeWord', copy.wholeWord, false),
      multiline,
      mode,
      before: isLines ? parseContextLines('before', copy.before, context) : 0,
      after: isLines ? parseContextLines('after', copy.after, context) : 0,
      maxCount: parseCount('maxCount', copy.maxCount, {
        least: 1,
        most: Number.MAX_SAFE_INTEGER,
        fallback: Number.MAX_SAFE_INTEGER,
      }),
      maxLineLength: parseCount('maxLineLength', copy.maxLineLength, {
        least: 1,
        most: limits.lineLength,
        fallback: limits.lineLengthDefault,
      }),
    },
    filter: {
      globs: readGlobs('globs', copy.globs),
      excludeGlobs: readGlobs('excludeGlobs', copy.excludeGlobs),
      nameEnds: readTypes(copy.fileTypes),
    },
    limit: parseCount('limit', copy.limit, {
      least: 1,
      most: limits.searchResults,
      fallback: limits.searchResultsDefault,
    }),
    offset: parseCount('offset', copy.offset, { least: 0, most: limits.searchOffset, fallback: 0 }),
  }
}

function parsePattern(value: unknown, multiline: boolean): string {
  const pattern = parseText('pattern', value, 4 * limits.grepPatternLength)
  if (pattern === '') throw invalid('pattern', 'must not be empty')
  if (pattern.length > limits.grepPatternLength)
    throw invalid(
      'pattern',
      `must have at most ${limits.grepPatternLength} characters; it has ${pattern.length}`,
    )
  if (!multiline && pattern.includes('\n'))
    throw invalid('pattern', 'has a line end, which no line contains; pass multiline: true')
  return pattern
}

function readTypes(list: unknown): string[] {
  if (list === undefined) return []
  return readList('fileTypes', list, limits.searchGlobs, 'types').flatMap((type, index) => {
    const ends = typeof type === 'string' && Object.hasOwn(fileTypes, type) ? fileTypes[type] : undefined
    if (ends !== undefined) return ends
    const known = Object.keys(fileTypes).join(', ')
    throw invalid(
      `fileTypes[${index}]`,
      `must be one of ${known}; it is ${given(type)}. Use globs for others`,
    )
  })
}
