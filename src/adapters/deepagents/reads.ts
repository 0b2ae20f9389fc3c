/** The methods of a backend that read. */
import { Buffer } from 'node:buffer'
import { normalizeReadPagination, type BackendProtocolV2, type FileInfo, type ReadResult } from 'deepagents'
import type { GlobEntry, SessionApi, TextLine } from '../../engine/index.js'
import { EngineError, given, invalid, untilAborted } from '../../engine/ports.js'
import type { Workspace } from '../tools/parts.js'
import { limits } from './limits.js'
import { binaryNames, binaryTypeOf, textType } from './media-type.js'
import { answer, isMissing, pathOf, type BackendScope } from './scope.js'

type Reads = Pick<BackendProtocolV2, 'ls' | 'read' | 'readRaw' | 'grep' | 'glob'>

/** The text that Deep Agents shows for an empty file. Its own backends return it too. */
const emptyNotice = 'System reminder: File exists but has empty contents'

export function readMethods(scope: BackendScope): Reads {
  // A read causes no event, so it needs no handle with the marks of the call.
  const session = scope.workspace.current
  return {
    ls: (path) =>
      answer(scope, async ({ signal }) => {
        const at = pathOf(path)
        const { entries, isTruncated } = await absentAs(
          nothing,
          findPaths(session, ['*', '.*'], at, signal),
          signal,
        )
        if (isTruncated)
          throw tooLarge(
            `${at} has over ${limits.listedPaths} entries: search it with glob`,
            limits.listedPaths,
          )
        return { files: await infosOf(session, entries) }
      }),

    read: (path, offset = 0, limit = limits.defaultReadLines) =>
      answer(scope, async ({ signal }) => {
        const at = pathOf(path)
        const mimeType = binaryTypeOf(at)
        if (mimeType === undefined)
          return readLines(scope.workspace, signal, at, normalizeReadPagination(offset, limit))
        return { content: await readWhole(scope.workspace, signal, at, limits.binaryBytes), mimeType }
      }),

    readRaw: (path) =>
      answer(scope, async ({ signal }) => {
        const at = pathOf(path)
        const { birthtimeMs, mtimeMs } = await session.files.stat({ path: at })
        const bytes = await readWhole(scope.workspace, signal, at, limits.rawBytes)
        const mimeType = binaryTypeOf(at)
        return {
          data: {
            content: mimeType === undefined ? Buffer.from(bytes).toString() : bytes,
            mimeType: mimeType ?? textType,
            created_at: new Date(birthtimeMs).toISOString(),
            modified_at: new Date(mtimeMs).toISOString(),
          },
        }
      }),

    grep: (pattern, path, glob, maxCount) =>
      answer(scope, async ({ signal }) => {
        if (typeof pattern !== 'string') throw invalid('pattern', `must be a text; it is ${given(pattern)}`)
        const limit = matchCount(maxCount)
        const request = {
          pattern,
          literal: true,
          path: pathOf(path ?? '/'),
          globs: glob === null || glob === undefined || glob === '' ? [] : [glob],
          excludeGlobs: [binaryNames],
          limit,
        }
        const found = session.text.grep(request, signal === undefined ? {} : { signal })
        const result = await absentAs(undefined, found, signal)
        if (result === undefined) return { matches: [] }
        const isComplete = !result.isTruncated && result.skippedFileCount === 0
        return {
          matches: result.lines.map((line) => ({ path: line.path, line: line.lineNumber, text: line.text })),
          ...(!isComplete && { truncated: true }),
        }
      }),

    glob: (pattern, path) =>
      answer(scope, async ({ signal }) => {
        if (typeof pattern !== 'string') throw invalid('pattern', `must be a glob; it is ${given(pattern)}`)
        const found = findPaths(session, [pattern], pathOf(path ?? '/'), signal)
        const { entries, isTruncated } = await absentAs(nothing, found, signal)
        return { files: await infosOf(session, entries), ...(isTruncated && { truncated: true }) }
      }),
  }
}

interface Found {
  readonly entries: readonly GlobEntry[]
  readonly isTruncated: boolean
}

const nothing: Found = { entries: [], isTruncated: false }

function findPaths(
  session: SessionApi,
  patterns: readonly string[],
  path: string,
  signal: AbortSignal | undefined,
): Promise<Found> {
  const request = { patterns, path, includeDirectories: true, limit: limits.listedPaths }
  return session.text.glob(request, signal === undefined ? {} : { signal })
}

/** The outcome of a search, or another value if its directory does not exist. */
async function absentAs<T, Absent>(
  absent: Absent,
  work: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T | Absent> {
  try {
    return await untilAborted(work, signal)
  } catch (error) {
    if (isMissing(error)) return absent
    throw error
  }
}

/** A symlink is described as its target. One without a target is a file of no size. */
async function infosOf(session: SessionApi, entries: readonly GlobEntry[]): Promise<FileInfo[]> {
  const infos: FileInfo[] = []
  for (const entry of entries) {
    const { kind, sizeBytes, mtimeMs } = entry.kind === 'symlink' ? await targetOf(session, entry) : entry
    const isDirectory = kind === 'directory'
    infos.push({
      path: isDirectory ? `${entry.path}/` : entry.path,
      is_dir: isDirectory,
      size: kind === 'symlink' ? 0 : sizeBytes,
      modified_at: new Date(mtimeMs).toISOString(),
    })
  }
  return infos
}

async function targetOf(
  session: SessionApi,
  entry: GlobEntry,
): Promise<Pick<GlobEntry, 'kind' | 'sizeBytes' | 'mtimeMs'>> {
  try {
    return await session.files.stat({ path: entry.path })
  } catch (error) {
    if (error instanceof EngineError) return entry
    throw error
  }
}

async function readLines(
  workspace: Workspace,
  signal: AbortSignal | undefined,
  path: string,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<ReadResult> {
  const result = await untilAborted(
    workspace.current.text.readLines({
      path,
      startLine: Math.min(offset + 1, Number.MAX_SAFE_INTEGER),
      limit: Math.min(Math.max(limit, 1), limits.readLines),
      maxLineLength: limits.lineLength,
    }),
    signal,
  )
  workspace.see(path, result.contentHash)
  const { lines, totalLines, sizeBytes } = result
  if (sizeBytes === 0) return { content: emptyNotice, mimeType: textType }
  if (limit === 0) return { content: '', mimeType: textType }
  const last = lines.at(-1)
  if (last === undefined)
    throw invalid('offset', `must be below ${totalLines}, the number of lines of ${path}; it is ${offset}`)
  return {
    content: lines.map(shownLine).join('\n'),
    mimeType: textType,
    totalLines,
    startLine: offset + 1,
    endLine: last.lineNumber,
    ...(last.lineNumber < totalLines && { nextOffset: last.lineNumber }),
  }
}

function shownLine({ text, isTruncated }: TextLine): string {
  return isTruncated ? `${text}[the line goes on: it has over ${limits.lineLength} characters]` : text
}

async function readWhole(
  workspace: Workspace,
  signal: AbortSignal | undefined,
  path: string,
  mostBytes: number,
): Promise<Uint8Array> {
  const read = workspace.current.files.readWithHash({ path, length: mostBytes })
  const { content, contentHash, sizeBytes } = await untilAborted(read, signal)
  if (sizeBytes > mostBytes)
    throw tooLarge(`${path} has ${sizeBytes} bytes, over ${mostBytes}: use downloadFiles`, mostBytes)
  workspace.see(path, contentHash)
  return content
}

function matchCount(given: number | null | undefined): number {
  if (given === null || given === undefined) return limits.matches
  if (!Number.isSafeInteger(given) || given < 1)
    throw invalid('maxCount', `must be a whole number from 1; it is ${String(given)}`)
  return Math.min(given, limits.matches)
}

function tooLarge(message: string, limit: number): EngineError {
  return new EngineError('TOO_LARGE', message, { limit: String(limit) })
}
