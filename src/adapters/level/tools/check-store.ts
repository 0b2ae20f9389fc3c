import type { CheckOptions, CheckReport } from '../../../engine/index.js'
import { EngineError, invalid, Shape } from '../../../engine/ports.js'
import { isFull, systemError } from '../errors.js'
import { checkOptions, existingDirectory, hostEnvironment, parseDirectory } from '../host.js'
import { nodeDisk } from '../directory/node-disk.js'
import { salvageStore } from './salvage.js'

/** Options of {@link checkStore}. */
export interface StoreCheckOptions extends Omit<CheckOptions, 'onProgress'> {
  /** Called from time to time with the progress. The check first reads all files, then checks the objects. */
  readonly onProgress?: (progress: StoreCheckProgress) => void
}

const optionsShape = new Shape<StoreCheckOptions>({ readData: true, signal: true, onProgress: true })

/** The progress of a check. */
export interface StoreCheckProgress {
  /** Bytes of the files read so far. */
  readonly readBytes: number
  /** Bytes of all files. */
  readonly totalBytes: number
  /** Number of objects checked so far; 0 until all files are read. */
  readonly objects: number
}

/** The result of checking a directory. */
export interface StoreCheck extends CheckReport {
  /** Observations that are no loss, such as the beginning of a commit that was never acknowledged. */
  readonly notes: readonly string[]
}

/**
 * Checks the store in a directory without opening it. This changes nothing in the directory, so the store may
 * be on read-only media, or its process may have been killed. Every byte of the segments is read and compared
 * with its checksum. Then everything is checked as `engine.check()` does. Findings about files come first,
 * with the name of the file and the byte.
 *
 * A store in use is checked as it is at the start, with every commit that was acknowledged by then. No lock
 * is taken.
 *
 * A damaged index is no loss, because the next opening rebuilds it from the segments. If the store was
 * closed, the damage is a finding, because the disk may have damaged other files too. If the store is in use,
 * or its process ended without closing it, the damage is a note, because a power cut can cause it.
 *
 * Memory: about 100 bytes for each record, event and content.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an argument has the wrong form
 * @throws {EngineError} STORE_FORMAT when the directory has no store, or one of another format, such as a
 *   store of format 1 that this version has not opened yet
 * @throws {EngineError} PERMISSION_DENIED, STORE_FAILED when the directory cannot be read
 *
 * @example
 * import { checkStore } from 'forkspace/level'
 *
 * const { found, findings } = await checkStore('./data', { readData: true })
 */
export async function checkStore(directory: string, options: StoreCheckOptions = {}): Promise<StoreCheck> {
  const { readData = false, signal, onProgress } = optionsShape.read(options, 'options')
  checkOptions(signal, onProgress)
  if (typeof readData !== 'boolean') throw invalid('readData', 'must be true or false')
  const path = parseDirectory('directory', directory)
  const engine = await import('../../../engine/index.js')
  try {
    let totalBytes = 0
    const { store, notes } = await salvageStore(nodeDisk, await existingDirectory(path), {
      signal,
      onProgress: (readBytes, bytes) => {
        totalBytes = bytes
        onProgress?.({ readBytes, totalBytes, objects: 0 })
      },
    })
    try {
      const report = await engine.checkStore(store, hostEnvironment, {
        readData,
        ...(signal !== undefined && { signal }),
        onProgress: (objects) => onProgress?.({ readBytes: totalBytes, totalBytes, objects }),
      })
      return { ...report, notes }
    } finally {
      await store.close()
    }
  } catch (error) {
    throw asEngineError(error, signal)
  }
}

/** A file system error as an error of the engine. */
export function asEngineError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (error instanceof EngineError || (signal?.aborted === true && error === signal.reason)) return error
  return systemError(
    error,
    isFull(error) ? 'the new store could not be written' : 'the store could not be read',
  )
}
