/** Turns errors of LevelDB and of the operating system into errors of the engine. */
import { EngineError } from '../../engine/ports.js'
type ErrorReason = EngineError['reason']
type ErrorDetails = EngineError['details']

const restore = 'Restore a backup of the whole directory'
/** The advice for a store that has lost data. */
export const restoreOrRepair = `${restore}, or run "forkspace repair"`

/** Whether a failed commit may have been stored after all: `unknown` if it was part of the failed write. */
export type Outcome = 'unknown' | 'not-applied'

export function closedError(): EngineError {
  return new EngineError('STORE_CLOSED', 'the store is closed')
}

export function lockedError(cause: unknown, details: ErrorDetails = {}): EngineError {
  return new EngineError(
    'STORE_LOCKED',
    'the store is open in another process. Close it there and try again',
    details,
    { cause },
  )
}

/** The message contains no path, because clients may see it. */
export function movedError(): EngineError {
  return new EngineError(
    'STORE_MOVED',
    'the directory of the store, or one in it, was moved, removed or replaced while the store was open. ' +
      'Put it back, or close the engine and open the store at its new path',
  )
}

/** A file that was removed or replaced. Its content stays readable until it is closed. */
export function lostFile(name: string): EngineError {
  return new EngineError(
    'STORE_MOVED',
    `${name} was moved, removed or replaced while the store was open, so nothing more is written to it. ` +
      'Everything is readable until the engine is closed: export the sessions as bundles first',
    { file: name },
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
    return new EngineError('DATA_LOSS', `LevelDB reports damaged files in index/. ${restore}`, {}, { cause })
  }
  const file = notFileAt(cause)
  if (file !== undefined) {
    const isOther = code !== undefined && code !== 'EISDIR' && notFiles.has(code)
    const what = isOther ? `is not a file that can be read (${code})` : 'is a directory instead of a file'
    return new EngineError('DATA_LOSS', `${file} ${what}. ${restoreOrRepair}`, { file }, { cause })
  }
  return systemError(cause, 'the store could not be opened')
}

/** The codes of reading a directory, a pipe, a link to itself and a socket. */
const notFiles: ReadonlySet<string> = new Set(['EISDIR', 'ESPIPE', 'ELOOP', 'ENXIO'])

/** The file of a store, relative to its directory, in whose place there is something else. */
function notFileAt(cause: unknown): string | undefined {
  // "IO error: /data/index/CURRENT: Is a directory"
  const inLevel = /^IO error: (.*): Is a directory/.exec(messageOf(cause))?.[1]
  const path: unknown =
    notFiles.has(errorCode(cause) ?? '') && cause instanceof Error ? Reflect.get(cause, 'path') : inLevel
  return typeof path === 'string' ? /(?:(?:index|segments)[/\\])?[^/\\]+$/.exec(path)?.[0] : undefined
}

export function missingFiles(names: readonly string[], options?: ErrorOptions): EngineError {
  const missing = names.join(', ')
  const message = `the store lacks ${missing}. Put it back, restore a backup of the whole directory, or run "forkspace repair"`
  return new EngineError('DATA_LOSS', message, { missing }, options)
}

/**
 * The error for missing files of a store of format 1. It does not suggest a repair, because no repair reads
 * format 1.
 */
export function missingOldFiles(names: readonly string[]): EngineError {
  const missing = names.join(', ')
  const message = `this store of format 1 lacks ${missing}. The store was not changed. ${restore}`
  return new EngineError('DATA_LOSS', message, { missing })
}

export function writeError(cause: unknown, outcome: Outcome): EngineError {
  if (isMoved(cause)) return new EngineError('STORE_MOVED', cause.message, { outcome }, { cause })
  const stored = outcome === 'unknown' ? 'the commit may or may not be stored' : 'the commit is not stored'
  if (isFull(cause)) {
    const message = `the disk of the store is full, and ${stored}. Free space and try again: the engine recovers by itself`
    return new EngineError('STORE_FULL', message, { outcome }, { cause })
  }
  const message = `the store could not be written${codeOf(cause)}, and ${stored}. Fix the cause and try again: the engine recovers by itself`
  return new EngineError('STORE_FAILED', message, { outcome }, { cause })
}

export function fencedError(cause: unknown): EngineError {
  if (isMoved(cause)) return writeError(cause, 'not-applied')
  const message = `the commit is not stored: an earlier write failed${codeOf(cause)}. Fix the cause and try again: the engine recovers by itself`
  return new EngineError('STORE_FAILED', message, { outcome: 'not-applied' }, { cause })
}

export function readError(cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause
  const code = errorCode(cause)
  if (code === 'LEVEL_DATABASE_NOT_OPEN' || code === 'LEVEL_ITERATOR_NOT_OPEN') return closedError()
  if (code === 'EMFILE' || code === 'ENFILE' || code === 'ENOMEM') return unreadableError(cause)
  if (/Too many open files|Cannot allocate memory/.test(messageOf(cause))) return unreadableError(cause)
  return new EngineError(
    'DATA_LOSS',
    `stored data cannot be read${codeOf(cause)}. ${restoreOrRepair}`,
    {},
    { cause },
  )
}

export function unreadableError(cause: unknown): EngineError {
  return new EngineError(
    'STORE_FAILED',
    `the store could not be read${codeOf(cause)}. Try again`,
    {},
    { cause },
  )
}

export function systemError(cause: unknown, message: string): EngineError {
  const reason = systemReason(cause)
  const text = `${message}${codeOf(cause)}${adviceFor(reason, cause)}`
  return new EngineError(reason, text, {}, { cause })
}

function adviceFor(reason: ErrorReason, cause: unknown): string {
  if (reason === 'STORE_FULL') return '. Free space and try again'
  if (reason !== 'PERMISSION_DENIED') return ''
  if (isReadOnly(cause))
    return ': its file system is read-only. Make it writable, or open a copy of the directory'
  const file = deniedFile(cause)
  return `. Give this process access to the directory${file === undefined ? '' : ` and to ${file}`}`
}

function isReadOnly(cause: unknown): boolean {
  return errorCode(cause) === 'EROFS' || messageOf(cause).includes('Read-only file system')
}

/** The file of a store, relative to its directory, that this process may not use. */
function deniedFile(cause: unknown): string | undefined {
  // "IO error: /data/index/LOCK: Permission denied"
  const inLevel = /^IO error: (.*): Permission denied/.exec(messageOf(cause))?.[1]
  const path: unknown = inLevel ?? (cause instanceof Error ? Reflect.get(cause, 'path') : undefined)
  if (typeof path !== 'string') return undefined
  return /[/\\]((?:index|segments)[/\\][^/\\]+|forkspace\.json)$/.exec(path)?.[1]
}

/**
 * The error code of the operating system, for a message that clients may see: unlike the system's own
 * message, it contains no path.
 */
function codeOf(cause: unknown): string {
  const code = errorCode(cause)
  return code === undefined ? '' : ` (${code})`
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
  if (code === 'EACCES' || code === 'EPERM' || isReadOnly(cause)) return 'PERMISSION_DENIED'
  return messageOf(cause).includes('Permission denied') ? 'PERMISSION_DENIED' : 'STORE_FAILED'
}

/**
 * Whether an error means that the disk is full. LevelDB passes on the message of the operating system, but
 * not its code.
 */
export function isFull(error: unknown): boolean {
  const code = errorCode(error)
  if (code === 'ENOSPC' || code === 'EDQUOT') return true
  return /No space left|quota exceeded|not enough space/i.test(messageOf(error))
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The error for a segment that is damaged at a byte offset. */
export function damagedSegment(name: string, offset: number, details: ErrorDetails = {}): EngineError {
  return new EngineError('DATA_LOSS', `segments/${name} is damaged at byte ${offset}. ${restoreOrRepair}`, {
    ...details,
    file: `segments/${name}`,
    offset: String(offset),
  })
}

/** The error for a file of a store of format 1 that differs from what LevelDB wrote. */
export function damagedOldFile(file: string, offset: number): EngineError {
  const message =
    `${file} of this store of format 1 is damaged at byte ${offset}. ` +
    `The store was not changed. ${restore}`
  return new EngineError('DATA_LOSS', message, { file, offset: String(offset) })
}
