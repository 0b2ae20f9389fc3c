import { randomFillSync } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { checkSignal, EngineError, invalid } from '../../engine/ports.js'
import type { Environment } from '../../engine/index.js'
import { errorCode, systemError } from './errors.js'

/** The clocks and the randomness of this machine. */
export const hostEnvironment: Environment = {
  wallClockMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  randomFill: (bytes) => void randomFillSync(bytes),
}

/** The path of a directory, as it was given. */
export function parseDirectory(field: string, directory: string): string {
  if (typeof directory !== 'string' || directory === '' || directory.includes('\0'))
    throw invalid(field, 'must be the path of a directory')
  return resolve(directory)
}

/** The real path of a directory that exists. */
export async function existingDirectory(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw new EngineError('STORE_FORMAT', 'there is no such directory', {}, { cause: error })
    throw systemError(error, 'the directory could not be read')
  }
}

/** INVALID_ARGUMENT. */
export function checkOptions(signal: unknown, onProgress: unknown): void {
  checkSignal(signal)
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalid('onProgress', 'must be a function')
}
