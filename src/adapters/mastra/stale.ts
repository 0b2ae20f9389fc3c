import { StaleFileError } from '@mastra/core/workspace'
import type { SessionApi } from '../../engine/index.js'
import { given, invalid } from '../../engine/ports.js'
import type { Workspace } from '../tools/parts.js'
import { isReason } from './errors.js'

type WriteRequest = Parameters<SessionApi['files']['write']>[0]

interface Expected {
  readonly expectedMtime: Date
  /** The path for the error. */
  readonly shownPath: string
}

/**
 * Writes a file that has the expected time of change. Times of two changes can be equal, and the file can change after
 * the comparison, so the write also expects a hash: that of the version that was read through this filesystem, or else of
 * the compared one. A missing file is created, if it is still missing then.
 */
export async function writeUnlessStale(
  workspace: Workspace,
  session: SessionApi,
  request: WriteRequest,
  { expectedMtime, shownPath }: Expected,
): Promise<void> {
  if (!(expectedMtime instanceof Date) || Number.isNaN(expectedMtime.getTime()))
    throw invalid('expectedMtime', `must be a valid Date; it is ${given(expectedMtime)}`)
  const current = await currentVersion(session, request.path)
  if (current !== undefined && current.mtime.getTime() !== expectedMtime.getTime())
    throw new StaleFileError(shownPath, expectedMtime, current.mtime)
  const guard =
    current === undefined ? { expectedHash: '' } : { ...current.guard, ...workspace.guard(request.path) }
  try {
    await session.files.write({ ...request, ...guard })
  } catch (error) {
    if (!isReason(error, 'HASH_MISMATCH')) throw error
    const now = await currentVersion(session, request.path)
    const stale = new StaleFileError(shownPath, expectedMtime, now?.mtime ?? expectedMtime)
    stale.cause = error
    throw stale
  }
}

async function currentVersion(
  session: SessionApi,
  path: string,
): Promise<{ readonly mtime: Date; readonly guard: { readonly expectedHash?: string } } | undefined> {
  try {
    const { mtimeMs, contentHash } = await session.files.stat({ path, includeContentHash: true })
    // A directory has no hash. The write itself refuses it.
    return { mtime: new Date(mtimeMs), guard: contentHash === '' ? {} : { expectedHash: contentHash } }
  } catch (error) {
    if (isReason(error, 'PATH_NOT_FOUND')) return undefined
    throw error
  }
}
