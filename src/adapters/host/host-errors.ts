import { EngineError } from '../../engine/ports.js'

/** The code of an error of the file system; undefined for any other. */
export function errnoOf(error: unknown): string | undefined {
  const { errno, code } = (error ?? {}) as { readonly errno?: unknown; readonly code?: unknown }
  return typeof errno === 'number' && typeof code === 'string' ? code : undefined
}

/**
 * Gives an error of the file system the form of the others. Its message has a path of the host in it, so it is left
 * behind; `path` is the caller's own.
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

/** What `work` gives, or undefined when it fails with one of these codes. */
export async function unless<T>(codes: readonly string[], work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (codes.includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

/** Nothing is there, or not what is looked for: a symlink among the directories too. */
export const absent = ['ENOENT', 'ENOTDIR', 'ELOOP'] as const

export function hostFailed(errno: string, path: string): EngineError {
  return new EngineError('HOST_FAILED', `the host's file system refused ${path}: ${errno}`, { errno, path })
}

export function hostPathNotFound(path: string): EngineError {
  return new EngineError('HOST_PATH_NOT_FOUND', `there is no directory ${path}`, { path })
}

export function hostPathNotAllowed(path: string): EngineError {
  return new EngineError(
    'HOST_PATH_NOT_ALLOWED',
    `${path} is not at or below a root: add one to the option hostPaths.roots`,
    { path },
  )
}
