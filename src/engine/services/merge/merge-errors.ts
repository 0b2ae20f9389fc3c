import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { eventIdOf } from '../../session/history/event-ids.js'
import type { LiveSession } from '../../session/table/live.js'
import type { FoundConflict } from './merged-trees.js'

/**
 * Refuses a merge whose conflicts the session cannot keep.
 *
 * @throws {EngineError} MERGE_CONFLICT when a policy is `fail`; LIMIT_EXCEEDED when there are too many.
 */
export function checkConflicts(conflicts: readonly FoundConflict[]): void {
  const fatal = conflicts.filter(({ isFatal }) => isFatal).map(({ path }) => path)
  const paths = fatal.slice(0, limits.pathsInDetails)
  if (fatal.length > 0) {
    throw new EngineError(
      'MERGE_CONFLICT',
      `${fatal.length} path${fatal.length === 1 ? ' has a conflict' : 's have conflicts'}, and their policy is fail: ${paths.slice(0, 3).join(', ')}; change one side, or choose another policy`,
      { paths: JSON.stringify(paths), conflictCount: String(fatal.length) },
    )
  }
  if (conflicts.length > limits.mergeConflicts) {
    throw new EngineError(
      'LIMIT_EXCEEDED',
      `the merge has ${conflicts.length} conflicts, and a session can keep ${limits.mergeConflicts}; pass policies such as { glob: '**', policy: 'theirs' }`,
      { limit: String(limits.mergeConflicts) },
    )
  }
}

/** Files moved to the places of other moved files, and so on. Each pass finds the next ones. */
export function tooManyPasses(): EngineError {
  return new EngineError(
    'LIMIT_EXCEEDED',
    `the two sides of the merge moved files into each other's places over ${limits.mergePasses} times in a row; merge an earlier state of the source first`,
    { limit: String(limits.mergePasses) },
  )
}

export function targetMoved(live: LiveSession, expectedEventId: string | undefined): EngineError {
  const eventId = eventIdOf(live.id, live.seq)
  const message =
    expectedEventId === undefined
      ? 'the session kept changing while the merge was computed; merge while there are fewer changes'
      : `the session is at the event ${eventId}, not at ${expectedEventId}; read it again, then merge with the new eventId`
  return new EngineError('MERGE_TARGET_MOVED', message, { sessionId: live.id, eventId })
}

export function conflictNotFound(path: string): EngineError {
  return new EngineError(
    'CONFLICT_NOT_FOUND',
    `the session has no unresolved conflict at ${JSON.stringify(path.slice(0, limits.shownLength))}; session.conflicts.list() lists them`,
    { path: path.slice(0, limits.shownLength) },
  )
}

export function inTheWay(file: string, path: string, hasConflict: boolean): EngineError {
  const first = hasConflict
    ? `resolve the conflict at ${file} first, or move that file away`
    : 'move that file away first'
  const message = `${file} is not a directory, so nothing can be put at ${path}; ${first}`
  return new EngineError('NOT_A_DIRECTORY', message, { path: file })
}

/** The base of a conflict is at another path, where the session has something that no conflict names. */
export function placeTaken(path: string, inDirectory: string | undefined): EngineError {
  return inDirectory === undefined
    ? new EngineError(
        'ALREADY_EXISTS',
        `${path} is another file now, so the base cannot be put there; move that file away first`,
        { path },
      )
    : new EngineError(
        'DIRECTORY_NOT_EMPTY',
        `${path} is a directory now, so the base cannot be put there; move ${inDirectory} away first`,
        { path },
      )
}
