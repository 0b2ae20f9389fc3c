import { isUtf8 } from 'node:buffer'
import type { GrepRequest } from '../../engine/index.js'
import { parseFileReference, parsePlace } from './arguments.js'
import type { Context } from './context.js'
import { Failure, UsageError } from './failure.js'
import { openInput } from './input.js'
import { printableLine, printableName } from './printable.js'

interface GrepFlags {
  readonly literal?: boolean
  readonly ignoreCase?: boolean
  readonly word?: boolean
  readonly glob?: readonly string[]
  readonly type?: readonly string[]
  readonly context?: string
  readonly limit?: string
  readonly files?: boolean
  readonly count?: boolean
}

/** Prints the lines that match, as `grep -n` does. */
export async function grepFiles(
  context: Context,
  [pattern, reference]: [string, string],
  flags: GrepFlags,
): Promise<void> {
  const { session: prefix, path } = parsePlace(reference)
  const { out } = context
  const { text } = await context.session(prefix)
  const mode = flags.count === true ? 'count' : flags.files === true ? 'files' : 'lines'
  const request: GrepRequest = {
    pattern,
    path,
    mode,
    literal: flags.literal ?? false,
    ignoreCase: flags.ignoreCase ?? false,
    wholeWord: flags.word ?? false,
    ...(flags.glob !== undefined && { globs: flags.glob }),
    ...(flags.type !== undefined && { fileTypes: flags.type }),
    ...(flags.context !== undefined && { context: parseNumber('--context', flags.context) }),
    ...(flags.limit !== undefined && { limit: parseNumber('--limit', flags.limit) }),
  }
  const { lines, files, isTruncated, nextOffset } = await text.grep(request)
  for (const line of lines) {
    const sign = line.isMatch ? ':' : '-'
    const shown = out.isTerminal ? printableLine(line.text) : line.text
    await out.line(`${printableName(line.path)}${sign}${line.lineNumber}${sign}${shown}`, line)
  }
  for (const file of files) {
    const name = printableName(file.path)
    await out.line(mode === 'count' ? `${name}:${file.matchCount}` : name, file)
  }
  if (isTruncated)
    context.stderr.write(`forkspace: there are more than ${nextOffset} results; pass a larger --limit\n`)
}

/** Prints the paths that match one of the patterns. */
export async function globPaths(
  context: Context,
  [reference, patterns]: [string, string[]],
  flags: { readonly directories?: boolean; readonly newest?: boolean; readonly limit?: string },
): Promise<void> {
  const { session: prefix, path } = parsePlace(reference)
  const { text } = await context.session(prefix)
  const { entries, isTruncated } = await text.glob({
    patterns,
    path,
    includeDirectories: flags.directories ?? false,
    order: flags.newest === true ? 'modified' : 'path',
    ...(flags.limit !== undefined && { limit: parseNumber('--limit', flags.limit) }),
  })
  for (const entry of entries) await context.out.line(printableName(entry.path), entry)
  if (isTruncated)
    context.stderr.write(`forkspace: there are more than ${entries.length} results; pass a larger --limit\n`)
}

/** Replaces text in a file. */
export async function editFile(
  context: Context,
  [reference]: [string],
  flags: {
    readonly old: string
    readonly new: string
    readonly all?: boolean
    readonly tolerant?: boolean
    readonly dryRun?: boolean
    readonly expect?: string
  },
): Promise<void> {
  const { session: prefix, path } = parseFileReference(reference)
  const { text } = await context.session(prefix)
  const result = await text.edit({
    path,
    oldText: flags.old,
    newText: flags.new,
    all: flags.all ?? false,
    whitespace: flags.tolerant === true ? 'tolerant' : 'exact',
    dryRun: flags.dryRun ?? false,
    ...(flags.expect !== undefined && { expectedHash: flags.expect }),
  })
  const ranges = result.changedLines.map(({ startLine, endLine }) =>
    endLine > startLine ? `${startLine}-${endLine}` : String(startLine),
  )
  await context.out.line(`${printableName(path)}:${ranges.join(',')}`, { path, ...result })
}

const letters = { created: 'A', deleted: 'D', modified: 'M', renamed: 'R', copied: 'C' } as const

/** Applies a patch from a file or from standard input. */
export async function applyPatch(
  context: Context,
  [reference, name]: [string, string],
  flags: { readonly dryRun?: boolean; readonly strip?: string; readonly fuzz?: string },
): Promise<void> {
  const { text } = await context.session(reference)
  const input = await openInput(name, context.world)
  const parts: Uint8Array[] = []
  try {
    for await (const part of input.read()) parts.push(part)
  } finally {
    await input.close()
  }
  const patch = Buffer.concat(parts)
  if (!isUtf8(patch))
    throw new Failure('the patch is not UTF-8; write its files with "forkspace put" instead')
  const { files } = await text.applyPatch({
    patch: patch.toString('utf8'),
    dryRun: flags.dryRun ?? false,
    ...(flags.strip !== undefined && { strip: parseNumber('--strip', flags.strip) }),
    ...(flags.fuzz !== undefined && { fuzz: parseNumber('--fuzz', flags.fuzz) }),
  })
  for (const file of files) {
    const from = file.oldPath === '' ? '' : `${printableName(file.oldPath)} -> `
    await context.out.line(`${letters[file.change]} ${from}${printableName(file.path)}`, file)
  }
}

function parseNumber(flag: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`${flag} takes a whole number, but got '${text}'`)
  return Number(text)
}
