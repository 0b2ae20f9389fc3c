import { randomFillSync } from 'node:crypto'
import { statSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { checkSignal, EngineError, given, invalid } from '../../engine/ports.js'
import type { Environment } from '../../engine/index.js'
import { errorCode, systemError } from './errors.js'
import { fileIdentity } from './directory/open-directory.js'

/** The clocks and the randomness of this machine. */
export const hostEnvironment: Environment = {
  wallClockMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  randomFill: (bytes) => void randomFillSync(bytes),
}

/**
 * The absolute path of a directory. Links in it are not resolved.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the argument cannot be a path
 */
export function parseDirectory(field: string, directory: string): string {
  if (typeof directory !== 'string' || directory === '' || directory.includes('\0'))
    throw invalid(field, `must be the path of a directory; it is ${given(directory)}`)
  return resolve(directory)
}

/**
 * The real path of a directory that must exist.
 *
 * @throws {EngineError} STORE_FORMAT when it does not exist or is a file
 */
export async function existingDirectory(path: string): Promise<string> {
  let real: string
  try {
    real = await realpath(path)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') throw noDirectory(path, 'does not exist', { cause: error })
    throw systemError(error, `the directory ${path} could not be read`)
  }
  if (statSync(real, { throwIfNoEntry: false })?.isFile() === true)
    throw noDirectory(path, 'is a file, and not the directory of a store')
  return real
}

function noDirectory(path: string, problem: string, options?: ErrorOptions): EngineError {
  const message = `${path} ${problem}. Pass the directory that has the file forkspace.json`
  return new EngineError('STORE_FORMAT', message, {}, options)
}

/** @throws {EngineError} INVALID_ARGUMENT when one of them has the wrong type */
export function checkOptions(signal: unknown, onProgress: unknown): void {
  checkSignal(signal)
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalid('onProgress', 'must be a function')
}

/**
 * Requires that a target is outside the store's directory. Directories are compared by device and inode, so
 * links and mounts in the paths make no difference.
 *
 * @throws EngineError `INVALID_ARGUMENT` when the target is the store's directory or below it. The target
 *   itself may be missing.
 */
export async function requireOutside(field: string, target: string, store: string): Promise<void> {
  const identity = fileIdentity(store)
  for (let path = await existingPart(target); ; path = dirname(path)) {
    if (fileIdentity(path) === identity)
      throw invalid(field, 'is the directory of the store, or a directory in it: choose a directory outside')
    if (path === dirname(path)) return
  }
}

/** The real path of the longest prefix of a path that exists. */
async function existingPart(path: string): Promise<string> {
  for (let part = path; ; part = dirname(part)) {
    try {
      return await realpath(part)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT' || part === dirname(part)) throw error
    }
  }
}
