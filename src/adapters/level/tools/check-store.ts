import type { CheckOptions, CheckReport } from '../../../engine/index.js'
import { EngineError, invalid, Shape } from '../../../engine/ports.js'
import { systemError } from '../errors.js'
import { checkOptions, existingDirectory, hostEnvironment, parseDirectory } from '../host.js'
import { nodeDisk } from '../directory/node-disk.js'
import { salvageStore } from './salvage.js'

/** Options of {@link checkStore}. */
export interface StoreCheckOptions extends Omit<CheckOptions, 'onProgress'> {
  /** Called now and then with the progress. The check first reads all files, then checks the objects. */
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
 * Looks through the store in a directory without an engine, and changes nothing in it, not even what opening would:
 * it may be on media that cannot be written, or of a process that was killed. Every byte of its segments is read and
 * compared with its checksum, then everything is checked as by `engine.check()`. Findings of files come first, by
 * name and byte.
 *
 * A store in use is checked as of the start: the check includes every commit that was acknowledged by then.
 * No lock is taken.
 *
 * A damaged index is no loss: the next opening makes it again from the segments. Of a store that was closed it is a
 * finding, as the disk may have damaged other files too. Of a store that is in use, or whose process ended without
 * closing it, it is a note: a power cut can leave it so.
 *
 * Memory: about 100 bytes for each record, event and content.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an argument has the wrong form
 * @throws {EngineError} STORE_FORMAT when the directory has no store, or one of another format, such as one of format 1
 *   that was not opened since
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
  return systemError(error, 'the store could not be read')
}
