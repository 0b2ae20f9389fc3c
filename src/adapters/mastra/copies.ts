/** Copies and moves of files and directories. */
import type { CopyOptions } from '@mastra/core/workspace'
import type { BatchOperation, SessionApi } from '../../engine/index.js'
import { EngineError, untilAborted } from '../../engine/ports.js'
import { isReason } from './errors.js'
import { limits } from './limits.js'
import { walk } from './listing.js'

interface Paths {
  readonly from: string
  readonly to: string
}

/** Copies a file, as one event. Missing parents are created. */
export async function copyFile(session: SessionApi, { from, to }: Paths, exclusive: boolean): Promise<void> {
  try {
    await session.files.copy({ sourcePath: from, destinationPath: to, exclusive })
  } catch (error) {
    if (!isReason(error, 'PATH_NOT_FOUND')) throw error
    // Only a write creates parents. If it is the source that is missing, this fails too.
    const { mode } = await session.files.stat({ path: from })
    const content = await session.files.readStream({ path: from })
    await session.files.write({ path: to, content, mode, exclusive })
  }
}

/**
 * Copies a directory. Its files are one event; directories without files below them are created by an event each.
 * Symlinks become copies of their files. Without `overwrite`, no file may exist.
 */
export async function copyDirectory(
  session: SessionApi,
  { from, to }: Paths,
  { overwrite = true }: CopyOptions,
  signal: AbortSignal | undefined,
): Promise<void> {
  const entries = await walk(session, from, { includeHidden: true }, signal)
  const operations: BatchOperation[] = []
  const directories = new Set([to])
  let bytes = 0
  for (const { path, type } of entries) {
    const target = `${to}/${path}`
    if (type === 'directory') directories.add(target)
    else {
      const source = `${from}/${path}`
      const { mode } = await untilAborted(session.files.stat({ path: source }), signal)
      const content = await untilAborted(session.files.read({ path: source }), signal)
      if ((bytes += content.length) > limits.copiedBytes) throw tooLarge(from)
      operations.push({ write: { path: target, content, mode, ...(!overwrite && { expectedHash: '' }) } })
      forgetParents(directories, target)
    }
  }
  if (operations.length > 0) await session.files.batch(operations)
  for (const path of directories) await session.files.createDirectory({ path, recursive: true })
}

/** A write creates the parents of its file. */
function forgetParents(directories: Set<string>, path: string): void {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
    directories.delete(path.slice(0, end))
}

/**
 * Moves a file or directory. If the parents of the destination are missing, they are created by an event of their own.
 * With `exclusive`, nothing may exist at the destination; for a file, this is one event even then.
 */
export async function move(session: SessionApi, { from, to }: Paths, exclusive: boolean): Promise<void> {
  if (exclusive) return moveToNew(session, { from, to })
  const rename = () => session.files.rename({ sourcePath: from, destinationPath: to })
  try {
    await rename()
  } catch (error) {
    if (!isReason(error, 'PATH_NOT_FOUND')) throw error
    await session.files.stat({ path: from, followSymlinks: false })
    await session.files.createDirectory({ path: parentOf(to), recursive: true })
    await rename()
  }
}

async function moveToNew(session: SessionApi, { from, to }: Paths): Promise<void> {
  const { kind, mode } = await session.files.stat({ path: from, followSymlinks: false })
  if (kind === 'file') {
    const { content, contentHash } = await session.files.readWithHash({ path: from })
    await session.files.batch([
      { write: { path: to, content, mode, expectedHash: '' } },
      { delete: { path: from, expectedHash: contentHash } },
    ])
    return
  }
  if (await exists(session, to)) throw new EngineError('ALREADY_EXISTS', `${to} already exists`, { path: to })
  await move(session, { from, to }, false)
}

async function exists(session: SessionApi, path: string): Promise<boolean> {
  try {
    await session.files.stat({ path, followSymlinks: false })
    return true
  } catch (error) {
    if (isReason(error, 'PATH_NOT_FOUND')) return false
    throw error
  }
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 1))
}

function tooLarge(path: string): EngineError {
  const limit = limits.copiedBytes
  return new EngineError('TOO_LARGE', `${path} has over ${limit} bytes: copy the directories below it`, {
    limit: String(limit),
  })
}
