import { EngineError } from '../../engine/ports.js'

/** Returns the code of a file system error, such as ENOENT, or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  const { errno, code } = (error ?? {}) as { readonly errno?: unknown; readonly code?: unknown }
  return typeof errno === 'number' && typeof code === 'string' ? code : undefined
}

/**
 * Converts errors of the file system to HOST_FAILED. `path` is the path known to the caller. The original
 * error is dropped, because its message contains a path of the host.
 */
export async function explained<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const errno = errnoOf(error)
    if (errno === undefined) throw error
    throw hostFailed(errno, path)
  }
}

/** Returns the result of `work`, or undefined if it fails with one of these codes. */
export async function unless<T>(codes: readonly string[], work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (codes.includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

/** Codes for a missing file or one of the wrong kind, such as a symlink instead of a directory. */
export const absent = ['ENOENT', 'ENOTDIR', 'ELOOP'] as const

export function hostFailed(errno: string, path: string): EngineError {
  return new EngineError('HOST_FAILED', `the host's file system returned ${errno} for ${path}`, {
    errno,
    path,
  })
}

export function hostPathNotFound(path: string): EngineError {
  return new EngineError('HOST_PATH_NOT_FOUND', `there is no directory ${path}`, { path })
}

export function hostPathNotAllowed(path: string): EngineError {
  return new EngineError(
    'HOST_PATH_NOT_ALLOWED',
    `${path} is outside the roots: add its directory to the option hostPaths.roots`,
    { path },
  )
}

export function openStoreNotAllowed(path: string): EngineError {
  return new EngineError(
    'HOST_PATH_NOT_ALLOWED',
    `the directory ${path} is that of an open store, whose files only its engine may use: choose a directory outside it`,
    { path },
  )
}
