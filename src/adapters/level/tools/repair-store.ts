import { Shape } from '../../../engine/ports.js'
import type { Dropped, Finding, RepairReport } from '../../../engine/index.js'
import { asEngineError } from './check-store.js'
import { checkOptions, existingDirectory, hostEnvironment, parseDirectory } from '../host.js'
import { newStoreId } from '../directory/marker.js'
import { nodeDisk } from '../directory/node-disk.js'
import { openLevelStore } from '../open-level-store.js'
import { salvageStore } from './salvage.js'
import type { Salvage } from './salvage.js'
import { TargetDirectory } from './target-directory.js'

/** Options of {@link repairStore}. */
export interface StoreRepairOptions {
  /** Ends the repair with the signal's reason, and removes the written files. */
  readonly signal?: AbortSignal
  /**
   * Called from time to time with the progress. The repair first reads all files, then copies the objects.
   */
  readonly onProgress?: (progress: StoreRepairProgress) => void
}

const optionsShape = new Shape<StoreRepairOptions>({ signal: true, onProgress: true })

/** The progress of a repair. */
export interface StoreRepairProgress {
  /** Bytes of the files read so far. */
  readonly readBytes: number
  /** Bytes of all files. */
  readonly totalBytes: number
  /** Number of objects copied so far; 0 until all files are read. */
  readonly objects: number
}

/** The result of a repair: the objects that it copied, and those that it did not. */
export interface StoreRepair extends RepairReport {
  /** The absolute path of the new store. */
  readonly directory: string
  /** The problems of the old store's files. */
  readonly findings: readonly Finding[]
  /** Observations about the old store that are no loss. */
  readonly notes: readonly string[]
  /** The findings of a check of the new store and all its contents. It is empty. */
  readonly remaining: readonly Finding[]
}

export type { Dropped }

/**
 * Builds an intact store from the remains of a damaged one. The new store goes to another directory, which
 * must be missing or empty. The old store is only read, and stays as it is.
 *
 * - All segments of the old store are read, and damaged parts are skipped. This works even if segments, the
 *   manifest or the marker are missing. An entry is used only if all of its bytes are intact.
 * - A session without losses stays unchanged, with its history.
 * - A session that lost contents or tree nodes keeps its newest state and its checkpoints, without the lost
 *   files or directories. It keeps its log, link for link, but not the redo data of its events.
 * - If events are lost, the log ends before the first of them. If the newest state is still known, one more
 *   event records the repair and replaces the lost events. Otherwise, the state is that of the last remaining
 *   event.
 * - These are left out: checkpoints whose state is lost, revisions and imported git trees that are not
 *   complete, and git objects, cache entries and checkouts that lost contents.
 *
 * `dropped` lists everything that was omitted or changed. If a record is damaged and an older version of it
 * is intact, the repair uses the older version, and the damage is among `findings`. The marker, which makes the
 * target a store, is written when everything else is on the disk. At the end the new store is checked, contents
 * included. A key of secrets in the old directory is not copied.
 *
 * Memory: about 100 bytes for each record, event and content, and the trees of one session.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an argument has the wrong form, or the target is the store's
 *   directory or below it
 * @throws {EngineError} STORE_FORMAT when the directory has no store, or one of another format
 * @throws {EngineError} ALREADY_EXISTS when the target is not empty
 * @throws {EngineError} STORE_MOVED when the target is moved, removed or replaced meanwhile
 * @throws {EngineError} STORE_FULL, PERMISSION_DENIED, STORE_FAILED when a directory cannot be read or
 *   written
 *
 * @example
 * import { repairStore } from 'forkspace/level'
 *
 * const { dropped } = await repairStore('./data', './data-repaired')
 * for (const { object, path, message } of dropped) console.log(object, path, message)
 */
export async function repairStore(
  directory: string,
  newDirectory: string,
  options: StoreRepairOptions = {},
): Promise<StoreRepair> {
  const { signal, onProgress } = optionsShape.read(options, 'options')
  checkOptions(signal, onProgress)
  const from = parseDirectory('directory', directory)
  const target = parseDirectory('newDirectory', newDirectory)
  signal?.throwIfAborted()
  try {
    const source = await existingDirectory(from)
    let totalBytes = 0
    const salvage = await salvageStore(nodeDisk, source, {
      signal,
      onProgress: (readBytes, bytes) => {
        totalBytes = bytes
        onProgress?.({ readBytes, totalBytes, objects: 0 })
      },
    })
    try {
      const to = await TargetDirectory.claim('newDirectory', target, source)
      try {
        const progress = (objects: number): void =>
          onProgress?.({ readBytes: totalBytes, totalBytes, objects })
        const written = await write(salvage, to, signal, progress)
        return { directory: target, ...written, findings: salvage.findings, notes: salvage.notes }
      } catch (error) {
        await to.discard()
        throw error
      } finally {
        to.close()
      }
    } finally {
      await salvage.store.close()
    }
  } catch (error) {
    throw asEngineError(error, signal)
  }
}

async function write(
  { store: from, lostEvents }: Salvage,
  target: TargetDirectory,
  signal: AbortSignal | undefined,
  onProgress: (objects: number) => void,
): Promise<RepairReport & { readonly remaining: readonly Finding[] }> {
  const engine = await import('../../../engine/index.js')
  const storeId = newStoreId()
  const options = { durability: 'full', unmarkedId: storeId } as const
  const to = await target.writing(() => openLevelStore(target.realPath, options))
  try {
    const report = await engine.repairStore(from, to, hostEnvironment, {
      signal,
      onProgress,
      sessionsWithEvents: from.sessionsWithEvents(),
      lostEvents,
    })
    await target.finish(storeId)
    const check = await engine.checkStore(to, hostEnvironment, {
      readData: true,
      ...(signal !== undefined && { signal }),
    })
    return { ...report, remaining: check.findings }
  } catch (error) {
    throw target.commitFailure(error)
  } finally {
    await to.close()
  }
}
