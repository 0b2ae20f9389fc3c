import {
  EngineError,
  plainPath,
  resolvePath,
  slashed,
  toSystemError,
  type SystemCall,
} from '../../../engine/client-contract.js'
import type { RemoteFiles } from '../files.js'

/** Runs a call, and converts errors of the engine to those of the system call. */
export async function asCall<T>(names: SystemCall, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (thrown) {
    throw toSystemError(thrown, names)
  }
}

/** Returns the path to send to the server. A path with a trailing slash must be a directory, or not exist. */
export async function locate(files: RemoteFiles, given: string): Promise<string> {
  const path = plainPath(given)
  if (!slashed(given)) return path
  const found = await files.stat({ path }).catch(unless('PATH_NOT_FOUND'))
  if (found === undefined || found.kind === 'directory') return path
  throw new EngineError('NOT_A_DIRECTORY', `${path} is not a directory`, { path })
}

/** The path of a new link. With a trailing slash it would be a directory, so it fails as on Linux. */
export async function freeName(files: RemoteFiles, given: string): Promise<string> {
  const path = plainPath(given)
  if (slashed(given)) await files.stat({ path, followSymlinks: false })
  return path
}

/** A call that may create a file takes no name with a slash at the end. Errors of its directory come first. */
export async function refuseFileName(files: RemoteFiles, path: string): Promise<never> {
  await requireParent(files, path)
  throw new EngineError('IS_A_DIRECTORY', `${path} is a directory`, { path })
}

/** Fails if the directory of a path is missing, or is no directory. */
export async function requireParent(files: RemoteFiles, path: string): Promise<void> {
  const parent = resolvePath(path, '..')
  const { kind } = await files.stat({ path: parent })
  if (kind !== 'directory')
    throw new EngineError('NOT_A_DIRECTORY', `${parent} is not a directory`, { path: parent })
}

/** The path of an entry to remove. With a trailing slash, it must be a directory. */
export async function removable(files: RemoteFiles, given: string): Promise<string> {
  const path = plainPath(given)
  if (slashed(given) && (await files.stat({ path, followSymlinks: false })).kind !== 'directory')
    throw new EngineError('NOT_A_DIRECTORY', `${path} is not a directory`, { path })
  return path
}

/**
 * Creates a handler for `catch` that returns undefined for errors with this reason, and rethrows all others.
 */
export function unless(reason: EngineError['reason']): (thrown: unknown) => undefined {
  return (thrown) => {
    if (hasReason(thrown, reason)) return undefined
    throw thrown
  }
}

export function hasReason(thrown: unknown, reason: EngineError['reason']): thrown is EngineError {
  return thrown instanceof EngineError && thrown.reason === reason
}
