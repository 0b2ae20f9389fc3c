import { z } from 'zod'
import { formatMatches, formatNumberedLines, type GrepResult } from '../../engine/index.js'
import { invalid } from '../../engine/ports.js'
import { limits } from './limits.js'
import { matchedParts } from './matched-parts.js'
import { defineTool } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import { absolute, type Workspace } from './workspace.js'

const readSchema = z.strictObject({
  file_path: z.string().describe('The path of the file, such as /src/a.ts.'),
  offset: z.int().min(0).optional().describe('The first line, from 1.'),
  limit: z.int().min(1).max(limits.readLines).optional().describe('The most lines.'),
})

const globSchema = z.strictObject({
  pattern: z.string().describe('A glob, such as **/*.ts or src/{a,b}.md.'),
  path: z.string().optional().describe('The directory where the pattern begins; the root by default.'),
})

const grepSchema = z.strictObject({
  pattern: z
    .string()
    .describe('A regular expression in the syntax of RE2, without look-around and back-references.'),
  path: z.string().optional().describe('The file or directory to search; the root by default.'),
  glob: z.string().optional().describe('Only files that match this glob, such as *.ts.'),
  type: z.string().optional().describe('Only files of this type, such as ts, py or md.'),
  output_mode: z
    .enum(['content', 'files_with_matches', 'count'])
    .optional()
    .describe(
      'content: matching lines. files_with_matches, the default: paths. count: paths with numbers of lines.',
    ),
  '-A': z.int().min(0).max(100).optional().describe('Lines after each match.'),
  '-B': z.int().min(0).max(100).optional().describe('Lines before each match.'),
  '-C': z.int().min(0).max(100).optional().describe('Lines before and after each match.'),
  context: z.int().min(0).max(100).optional().describe('The same as -C.'),
  '-n': z.boolean().optional().describe('Whether lines have numbers; true by default.'),
  '-i': z.boolean().optional().describe('Whether upper and lower case are the same.'),
  '-o': z
    .boolean()
    .optional()
    .describe('With content: only the matching parts of lines, each as a line; not with multiline.'),
  head_limit: z
    .int()
    .min(0)
    .max(limits.grepMostResults)
    .optional()
    .describe('The most results; 0: as many as possible.'),
  offset: z.int().min(0).optional().describe('Results to skip.'),
  multiline: z.boolean().optional().describe('Whether a match may have several lines.'),
})

/** Reads a file with line numbers. */
export function readTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'read',
    description: 'Reads a text file with line numbers, by default its first 2,000 lines.',
    schema: readSchema,
    hints: { readOnly: true, idempotent: true },
    async run({ file_path: given, offset = 1, limit = limits.readLines }, { session }) {
      const path = absolute(given)
      const startLine = Math.max(offset, 1)
      const read = await session.text.readLines({ path, startLine, limit })
      workspace.see(path, read.contentHash)
      const last = read.lines.at(-1)?.lineNumber ?? startLine - 1
      const more = read.isTruncated
        ? `\n[Lines ${last + 1} to ${read.totalLines} follow: read on at offset ${last + 1}.]`
        : ''
      const text =
        read.lines.length === 0 ? `[${path} has ${read.totalLines} lines, none in this range.]` : ''
      return {
        text: text + formatNumberedLines(read.lines) + more,
        data: {
          path,
          contentHash: read.contentHash,
          totalLines: read.totalLines,
          isTruncated: read.isTruncated,
        },
      }
    },
  })
}

/** Finds paths by a glob, the newest change first. */
export function globTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'glob',
    description: `Finds files by a glob, the newest change first, at most ${limits.globPaths}.`,
    schema: globSchema,
    hints: { readOnly: true, idempotent: true },
    async run({ pattern, path = '/' }, { session, signal }) {
      const { entries, isTruncated } = await session.text.glob(
        { patterns: [pattern], path: absolute(path), order: 'modified', limit: limits.globPaths },
        signal === undefined ? {} : { signal },
      )
      const paths = entries.map((entry) => entry.path)
      const more = isTruncated ? '\n[More files match. Use a narrower pattern.]' : ''
      return {
        text: (paths.length === 0 ? 'No files found' : paths.join('\n')) + more,
        data: { paths, isTruncated },
      }
    },
  })
}

/** Searches contents. */
export function grepTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'grep',
    description: 'Searches the contents of files with a regular expression. Binary files are left out.',
    schema: grepSchema,
    hints: { readOnly: true, idempotent: true },
    async run(input, { session, signal }) {
      const {
        output_mode: mode = 'files_with_matches',
        '-n': numbered = true,
        '-i': ignoreCase = false,
      } = input
      const onlyParts = mode === 'content' && input['-o'] === true
      if (onlyParts && input.multiline === true) throw invalid('-o', 'cannot be combined with multiline')
      const around = onlyParts ? 0 : (input['-C'] ?? input.context ?? 0)
      const result = await session.text.grep(
        {
          pattern: input.pattern,
          path: absolute(input.path ?? '/'),
          globs: input.glob === undefined ? [] : [input.glob],
          fileTypes: input.type === undefined ? [] : [input.type],
          before: onlyParts ? 0 : (input['-B'] ?? around),
          after: onlyParts ? 0 : (input['-A'] ?? around),
          ignoreCase,
          multiline: input.multiline ?? false,
          offset: input.offset ?? 0,
          limit: resultsOf(input.head_limit),
          mode: mode === 'content' ? 'lines' : mode === 'count' ? 'count' : 'files',
        },
        signal === undefined ? {} : { signal },
      )
      const lines = onlyParts
        ? await matchedParts(result.lines, { pattern: input.pattern, ignoreCase })
        : result.lines
      const shown = { ...result, lines }
      return { text: describe(shown, mode, numbered), data: { ...plain(shown) } }
    },
  })
}

function resultsOf(wanted: number = limits.grepResults): number {
  return wanted === 0 ? limits.grepMostResults : wanted
}

type Mode = 'content' | 'files_with_matches' | 'count'

function describe(result: GrepResult, mode: Mode, numbered: boolean): string {
  const shown =
    mode !== 'content'
      ? result.files
          .map(({ path, matchCount }) => (mode === 'count' ? `${path}:${matchCount}` : path))
          .join('\n')
      : numbered
        ? formatMatches(result.lines)
        : result.lines.map(({ path, isMatch, text }) => `${path}${isMatch ? ':' : '-'}${text}`).join('\n')
  const skipped =
    result.skippedFileCount === 0
      ? ''
      : `\n[${result.skippedFileCount} files are too large and were not searched.]`
  const more = result.isTruncated
    ? `\n[There are more results: repeat with offset ${result.nextOffset}.]`
    : ''
  return (shown === '' ? 'No matches found' : shown) + more + skipped
}

function plain({ lines, files, isTruncated, nextOffset, skippedFileCount }: GrepResult) {
  return {
    lines: lines.map((line) => ({ ...line })),
    files: files.map((file) => ({ ...file })),
    isTruncated,
    nextOffset,
    skippedFileCount,
  }
}
