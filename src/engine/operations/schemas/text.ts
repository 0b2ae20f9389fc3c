import * as z from 'zod'
import { limits } from '../../base/limits.js'
import {
  flag,
  hash,
  inBytes,
  int64,
  integer,
  named,
  nodeKind,
  number,
  path,
  sessionId,
  stringMap,
  text,
} from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

const inSession = { sessionId }
const option = flag.meta({ default: false }).exactOptional()
const dryRun = option.describe('true: returns the result, and changes nothing.')
const count = (description: string, fallback: number, most: number) =>
  integer
    .meta({ minimum: 1, maximum: most, description: `${description} Absent: ${fallback}.` })
    .exactOptional()
const maxLineLength = count(
  'The most UTF-16 units of a returned line. Longer lines are cut.',
  limits.lineLengthDefault,
  limits.lineLength,
)
const globs = (description: string) => z.array(text).describe(`${description} At most ${limits.searchGlobs}.`)
const resultLimit = (unit: string) =>
  count(`The most ${unit} that are returned.`, limits.searchResultsDefault, limits.searchResults)
const isTruncatedLine = flag.describe('Whether the line is longer than `text`.')
const editText = text.describe(`At most ${inBytes(limits.editTextBytes)} of UTF-8.`)
const contextLines = (description: string) =>
  integer.meta({ minimum: 0, maximum: limits.contextLines, description }).exactOptional()

const textEdit = named(
  'TextEdit',
  z.object({
    oldText: editText,
    newText: editText,
    all: option.describe('true: replaces all matches. Otherwise the text must match exactly once.'),
  }),
)

const lineRange = named(
  'LineRange',
  z.object({
    startLine: integer.describe('From 1.'),
    endLine: integer.describe(
      'The last line. Where text was only removed, the range is the line that is there now.',
    ),
  }),
)

const editHunk = named(
  'EditHunk',
  z.object({
    startLine: integer.describe('The number of the first line, from 1.'),
    lines: z.array(text).describe('Lines of the new content, without line ends.'),
  }),
)

export const textSchemas = defineSchemas({
  readLines: {
    request: z.object({
      ...inSession,
      path,
      startLine: integer.meta({ minimum: 1, description: 'The first line. Absent: 1.' }).exactOptional(),
      endLine: integer.describe('The last line. Absent or −1: the last line of the file.').exactOptional(),
      limit: count('The most lines that are returned.', limits.readLinesDefault, limits.readLines),
      maxLineLength,
    }),
    response: z.object({
      lines: z.array(
        named(
          'TextLine',
          z.object({ lineNumber: integer.describe('From 1.'), text, isTruncated: isTruncatedLine }),
        ),
      ),
      totalLines: integer.describe('The number of lines of the file.'),
      isTruncated: flag.describe('Whether the requested range has more lines.'),
      contentHash: hash.describe('Of the whole content.'),
      sizeBytes: int64.describe('Of the whole content.'),
      lineEnding: z.enum(['LF', 'CRLF', 'mixed', 'none']),
      hasBom: flag.describe('Whether the file begins with a byte order mark.'),
    }),
  },
  editFile: {
    request: z.object({
      ...inSession,
      path,
      edits: z
        .array(textEdit)
        .describe(`In order, at most ${limits.textEdits}. Pass either these, or \`oldText\` and \`newText\`.`)
        .exactOptional(),
      oldText: editText.exactOptional(),
      newText: editText.exactOptional(),
      all: flag.describe('Like `all` of an edit.').exactOptional(),
      whitespace: z
        .enum(['exact', 'tolerant'])
        .describe(
          '`tolerant`: without an exact match, whole lines match without white space at their ends, or else also ' +
            'without their indentation. Absent: `exact`.',
        )
        .exactOptional(),
      expectedHash: hash.describe('The required hash of the content. Absent: no condition.').exactOptional(),
      context: contextLines('Unchanged lines around each change in `hunks`. Absent: no `hunks`.'),
      dryRun,
    }),
    response: z.object({
      replacementCount: integer,
      changedLines: z.array(lineRange).describe('Lines of the new content.'),
      hunks: z
        .array(editHunk)
        .describe(
          `With \`context\`: the changed lines and those around them, at most ${limits.editHunkLines} lines.`,
        )
        .exactOptional(),
      contentHash: hash.describe('Of the new content.'),
      sizeBytes: int64.describe('Of the new content.'),
    }),
  },
  applyPatch: {
    request: z.object({
      ...inSession,
      patch: text.describe(`At most ${inBytes(limits.patchBytes)} of UTF-8.`),
      format: z
        .enum(['auto', 'unified', 'v4a'])
        .describe('Absent or `auto`: decided by the first line.')
        .exactOptional(),
      strip: integer
        .meta({
          minimum: 0,
          description:
            'Leading names that are removed from paths of a unified patch. Absent: 1 for `a/` and `b/`, otherwise 0.',
        })
        .exactOptional(),
      fuzz: integer
        .meta({
          minimum: 0,
          maximum: limits.patchFuzz,
          description: 'Lines of context at each end of a unified hunk that may differ. Absent: 0.',
        })
        .exactOptional(),
      dryRun,
      expectedHashes: stringMap
        .meta({
          description: 'The required hash of the content of each path. Empty: the path must not exist.',
        })
        .exactOptional(),
    }),
    response: z.object({
      files: z.array(
        named(
          'PatchedFile',
          z.object({
            path: text.describe('After the patch; of a deleted file, before.'),
            oldPath: text.describe('Of a renamed or copied file; otherwise empty.'),
            change: z.enum(['created', 'deleted', 'modified', 'renamed', 'copied']),
            contentHash: hash.describe('Of the new content; empty for a deleted file.'),
            addedLineCount: integer,
            removedLineCount: integer,
          }),
        ),
      ),
    }),
  },
  globPaths: {
    request: z.object({
      ...inSession,
      patterns: globs('A relative pattern begins at `path`, one with a leading slash at the root.'),
      path: path.exactOptional(),
      exclude: globs('Paths that are left out, with everything below them.').exactOptional(),
      limit: resultLimit('entries'),
      includeDirectories: option,
      order: z
        .enum(['path', 'modified'])
        .describe('`modified`: the newest change first. Absent: `path`.')
        .exactOptional(),
    }),
    response: z.object({
      entries: z.array(
        named(
          'GlobEntry',
          z.object({
            path: text,
            kind: nodeKind,
            sizeBytes: int64.describe('0 for directories and symlinks.'),
            mtimeMs: number.describe('The last change, in milliseconds since the epoch.'),
          }),
        ),
      ),
      isTruncated: flag.describe('Whether more paths match.'),
    }),
  },
  grepFiles: {
    request: z.object({
      ...inSession,
      pattern: text.describe(
        `A regular expression of RE2, or with \`literal\` a text. At most ${limits.grepPatternLength} characters.`,
      ),
      path: path.exactOptional(),
      literal: option,
      ignoreCase: option,
      wholeWord: option,
      globs: globs('Files that are searched. A pattern without a slash is for names.').exactOptional(),
      excludeGlobs: globs('Files and directories that are left out.').exactOptional(),
      fileTypes: z.array(text).describe('Such as `ts` or `md`.').exactOptional(),
      context: contextLines('Lines of context around each match. Absent: 0.'),
      before: contextLines('Lines of context before each match. Absent: `context`.'),
      after: contextLines('Lines of context after each match. Absent: `context`.'),
      maxCount: integer
        .meta({ minimum: 1, description: 'The most matching lines of each file. Absent: all.' })
        .exactOptional(),
      limit: resultLimit('matching lines, or files with another mode,'),
      offset: integer
        .meta({
          minimum: 0,
          maximum: limits.searchOffset,
          description: 'Results that are skipped. Absent: 0.',
        })
        .exactOptional(),
      mode: z
        .enum(['lines', 'files', 'count'])
        .describe('`files`: only paths. `count`: paths with their number of matching lines. Absent: `lines`.')
        .exactOptional(),
      multiline: option.describe('true: a match may have several lines.'),
      maxLineLength,
    }),
    response: z.object({
      lines: z.array(
        named(
          'GrepLine',
          z.object({
            path: text,
            lineNumber: integer.describe('From 1.'),
            column: integer.describe('Where the first match begins, from 1, in UTF-16 units; 0 for context.'),
            text,
            isMatch: flag.describe('false: a line of context.'),
            isTruncated: isTruncatedLine,
          }),
        ),
      ),
      files: z.array(named('GrepFile', z.object({ path: text, matchCount: integer }))),
      isTruncated: flag.describe('Whether there are more results.'),
      nextOffset: integer.describe('The `offset` of the next results.'),
      skippedFileCount: integer.describe('Files that are too large to be searched.'),
    }),
  },
})
