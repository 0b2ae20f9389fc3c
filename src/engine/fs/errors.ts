import { present } from '../base/present.js'
import { EngineError, errorRegistry } from '../base/errors.js'

/** The error numbers of Linux and the messages of Node. */
const systemErrors: Readonly<Record<string, readonly [errno: number, message: string]>> = {
  EPERM: [-1, 'operation not permitted'],
  ENOENT: [-2, 'no such file or directory'],
  EIO: [-5, 'i/o error'],
  E2BIG: [-7, 'argument list too long'],
  EBADF: [-9, 'bad file descriptor'],
  EAGAIN: [-11, 'resource temporarily unavailable'],
  EACCES: [-13, 'permission denied'],
  EBUSY: [-16, 'resource busy or locked'],
  EEXIST: [-17, 'file already exists'],
  EXDEV: [-18, 'cross-device link not permitted'],
  ENOTDIR: [-20, 'not a directory'],
  EISDIR: [-21, 'illegal operation on a directory'],
  EINVAL: [-22, 'invalid argument'],
  EFBIG: [-27, 'file too large'],
  ENOSPC: [-28, 'no space left on device'],
  EROFS: [-30, 'read-only file system'],
  EMLINK: [-31, 'too many links'],
  ENAMETOOLONG: [-36, 'name too long'],
  ENOTEMPTY: [-39, 'directory not empty'],
  ELOOP: [-40, 'too many symbolic links encountered'],
  ENODATA: [-61, 'no data available'],
  EDQUOT: [-122, 'disk quota exceeded'],
  ETIMEDOUT: [-110, 'connection timed out'],
}

/** The fields of an error that describe the failed call. */
export interface SystemCall {
  readonly syscall: string
  readonly path?: string | undefined
  readonly dest?: string | undefined
}

/**
 * An error of `session.fs`, with the fields of the errors of `node:fs`. Its `cause` is the
 * {@link EngineError}, if there is one.
 */
export interface SystemError extends Error {
  /** The negative error number of `code` on Linux, such as -2 for `ENOENT`. */
  readonly errno: number
  /** The name of the error, such as `ENOENT`. */
  readonly code: string
  /** The failed operation, such as `open` or `mkdir`. */
  readonly syscall: string
  /** The path exactly as passed to the call; absent if the call had none. */
  readonly path?: string
  /** The second path of the call, such as the destination of a rename; absent if the call had none. */
  readonly dest?: string
}

/** Creates the error that node:fs would throw. Its cause is the engine's error. */
export function systemError(code: string, call: SystemCall, cause?: unknown): SystemError {
  const [errno, message] = systemErrors[code] ?? present(systemErrors['EIO'], 'EIO')
  const { syscall, path, dest } = call
  let text = `${code}: ${message}, ${syscall}`
  if (path !== undefined) text += ` '${path}'`
  if (dest !== undefined) text += ` -> '${dest}'`
  const error = cause === undefined ? new Error(text) : new Error(text, { cause })
  return Object.assign(
    error,
    { errno, code, syscall },
    path === undefined ? {} : { path },
    dest === undefined ? {} : { dest },
  )
}

/** Converts an engine error to a system error. Other errors are returned unchanged. */
export function toSystemError(thrown: unknown, call: SystemCall): Error {
  if (!(thrown instanceof EngineError)) return thrown as Error
  return systemError(errorRegistry[thrown.reason].errno ?? 'EIO', call, thrown)
}

/**
 * Returns the code that a caller would see, or undefined if the error comes neither from the engine nor the
 * system.
 */
export function codeOf(thrown: unknown): string | undefined {
  if (thrown instanceof EngineError) return errorRegistry[thrown.reason].errno ?? 'EIO'
  return (thrown as Partial<SystemError>).code
}

const positiveErrno: Readonly<Record<string, number>> = { EEXIST: 17, ENOTDIR: 20, EISDIR: 21, EINVAL: 22 }

/** Creates an error of `rm` or `cp` that Node composes itself. `text` is the start of the message. */
export function composedError(
  nodeCode: string,
  text: string,
  {
    code,
    message,
    path,
    syscall,
    errno = present(positiveErrno[code], code),
  }: { code: string; message: string; path: string; syscall: string; errno?: number },
): Error {
  const error = new Error(`${text}: ${syscall} returned ${code} (${message}) ${path}`)
  const info = { code, message, path, syscall, errno }
  return Object.assign(error, { name: 'SystemError', code: nodeCode, info, errno, syscall, path })
}

/** Node's error for `rm` of a directory without `recursive`. */
export function rmOfDirectory(path: string): Error {
  const info = { code: 'EISDIR', message: 'is a directory', path, syscall: 'rm' }
  return composedError('ERR_FS_EISDIR', 'Path is a directory', info)
}
