/** What LevelDB and the operating system report, as the errors of the engine. */
import { EngineError } from '../../engine/ports.js'
type ErrorReason = EngineError['reason']
type ErrorDetails = EngineError['details']

/** Whether a commit of a failed write may have been stored after all. */
export type Outcome = 'unknown' | 'not-applied'

export function closedError(): EngineError {
  return new EngineError('STORE_CLOSED', 'the store is closed')
}

export function lockedError(cause: unknown, details: ErrorDetails = {}): EngineError {
  return new EngineError('STORE_LOCKED', 'the directory is open in another process', details, { cause })
}

/** The message has no path: it may go to clients. */
export function movedError(): EngineError {
  return new EngineError(
    'STORE_MOVED',
    'the directory of the store was moved, removed or replaced while it was open. ' +
      'Put it back, or close the engine and open the store where it is now',
  )
}

export function openError(error: unknown): EngineError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = errorCode(cause)
  if (code === 'LEVEL_LOCKED') {
    return lockedError(cause)
  }
  const text = messageOf(cause)
  // "Corruption: 2 missing files; e.g.: /data/index/000005.ldb"
  const missing = /missing files; e\.g\.: .*?([^/\\]+)$/.exec(text)?.[1]
  if (missing !== undefined) return missingFiles([missing], { cause })
  if (code === 'LEVEL_CORRUPTION' || /does not exist|No such file/.test(text)) {
    return new EngineError('DATA_LOSS', 'files of the store are damaged', {}, { cause })
  }
  return systemError(cause, 'the store could not be opened')
}

export function missingFiles(names: readonly string[], options?: ErrorOptions): EngineError {
  const missing = names.join(', ')
  return new EngineError('DATA_LOSS', `files of the store are missing: ${missing}`, { missing }, options)
}

export function writeError(cause: unknown, outcome: Outcome): EngineError {
  if (isMoved(cause)) return new EngineError('STORE_MOVED', cause.message, { outcome }, { cause })
  const reason = isFull(cause) ? 'STORE_FULL' : 'STORE_FAILED'
  return new EngineError(reason, 'a write to the store failed', { outcome }, { cause })
}

export function fencedError(cause: unknown): EngineError {
  if (isMoved(cause)) return writeError(cause, 'not-applied')
  const message = 'an earlier write failed; nothing is accepted until the store has recovered'
  return new EngineError('STORE_FAILED', message, { outcome: 'not-applied' }, { cause })
}

export function readError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause
  const code = errorCode(cause)
  if (code === 'LEVEL_DATABASE_NOT_OPEN' || code === 'LEVEL_ITERATOR_NOT_OPEN') return closedError()
  if (code === 'EMFILE' || code === 'ENFILE' || code === 'ENOMEM') return unreadableError(cause)
  if (/Too many open files|Cannot allocate memory/.test(messageOf(cause))) return unreadableError(cause)
  return new EngineError('DATA_LOSS', 'stored data could not be read', {}, { cause })
}

export function unreadableError(cause: unknown): EngineError {
  return new EngineError('STORE_FAILED', 'the store could not be read', {}, { cause })
}

export function systemError(cause: unknown, message: string): EngineError {
  return new EngineError(systemReason(cause), message, {}, { cause })
}

export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

function isMoved(cause: unknown): cause is EngineError {
  return cause instanceof EngineError && cause.reason === 'STORE_MOVED'
}

function systemReason(cause: unknown): ErrorReason {
  if (isFull(cause)) return 'STORE_FULL'
  const code = errorCode(cause)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return 'PERMISSION_DENIED'
  return /Permission denied|Read-only file system/.test(messageOf(cause))
    ? 'PERMISSION_DENIED'
    : 'STORE_FAILED'
}

/** LevelDB gives the text of the operating system, not its code. */
function isFull(error: unknown): boolean {
  const code = errorCode(error)
  if (code === 'ENOSPC' || code === 'EDQUOT') return true
  return /No space left|quota exceeded|not enough space/i.test(messageOf(error))
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** A segment is not as it was written. */
export function damagedSegment(name: string, offset: number, details: ErrorDetails = {}): EngineError {
  return new EngineError('DATA_LOSS', `the segment ${name} is damaged at byte ${offset}`, {
    ...details,
    file: `segments/${name}`,
    offset: String(offset),
  })
}

/** A file of a store of format 1 is not as LevelDB wrote it. */
export function damagedOldFile(file: string, offset: number): EngineError {
  const message =
    `${file} of this store of format 1 is damaged at byte ${offset}. ` +
    'The store was not changed. Restore a backup of the whole directory'
  return new EngineError('DATA_LOSS', message, { file, offset: String(offset) })
}
