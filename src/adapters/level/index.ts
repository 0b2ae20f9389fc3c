/**
 * Storage in a directory: segment files with the data, and an index of them.
 *
 * @module
 */
import { resolve } from 'node:path'
import { given, invalid, Shape } from '../../engine/ports.js'
import type { Storage } from '../../engine/ports.js'
import { openLevelStore } from './open-level-store.js'

export type { Storage } from '../../engine/ports.js'
export { backupStore } from './tools/backup-store.js'
export type { StoreBackup, StoreBackupOptions, StoreBackupProgress } from './tools/backup-store.js'
export { checkStore } from './tools/check-store.js'
export { repairStore } from './tools/repair-store.js'
export type { Dropped, StoreRepair, StoreRepairOptions, StoreRepairProgress } from './tools/repair-store.js'
export type { StoreCheck, StoreCheckOptions, StoreCheckProgress } from './tools/check-store.js'

/** Options of {@link levelStorage}. */
export interface LevelStorageOptions {
  /**
   * The failures that an acknowledged operation survives.
   *
   * - `full`, the default: a killed process and a power cut. All commits that wait together share one
   *   fdatasync.
   * - `relaxed`: only a killed process. It is many times faster for a single writer, for tests and caches.
   */
  readonly durability?: 'full' | 'relaxed'
}

const optionsShape = new Shape<LevelStorageOptions>({ durability: true })

/**
 * Storage in a directory. Opening the engine creates the directory if it does not exist. An existing
 * directory must be empty or contain a store. This call itself touches no file, and its result can be opened
 * again after the engine was closed.
 *
 * Guarantees
 * - An operation whose promise resolved survives `kill -9`, and with `durability: 'full'` also a power cut.
 *   An operation is stored completely or not at all.
 * - Reads verify checksums. A read of bytes that were changed on the disk fails with `DATA_LOSS`. Everything
 *   else stays readable.
 * - Only one engine can have the store open, in this process or in another one, whatever path leads to the
 *   directory.
 * - Other users of the system cannot read the store: new files and directories have the modes 0600 and 0700.
 * - A store with missing files is rejected, unless the files can be rebuilt without loss.
 * - After a failed write, the store accepts no further writes until it has recovered. Reads continue.
 * - Opening a store of an earlier format rewrites it. This temporarily takes the same space again.
 *
 * Not guaranteed: several processes on one directory, and file systems without working locks and fsync (many
 * network mounts). If the newest operations are damaged between a kill and the next opening, the damage is
 * treated as a write that was cut short.
 *
 * Errors of opening, by reason
 * - `STORE_LOCKED` the directory is already open, in this process or in another one. `details.pid`,
 *   `details.since` and `details.host` describe that process, if they are known.
 * - `STORE_FORMAT` the directory is not empty and contains no store, or its format is newer than this version
 *   supports. In the second case, `details.format` and `details.supported` contain both formats. Nothing in
 *   the directory was changed.
 * - `DATA_LOSS` files of the store are missing or damaged. `details.missing` lists missing files, and
 *   `details.file` and `details.offset` locate the damage.
 * - `PERMISSION_DENIED`, `STORE_FULL`, `STORE_FAILED` the directory could not be read or written.
 *
 * Errors of use, by reason
 * - `STORE_FULL`, `STORE_FAILED` a write failed. `details.outcome` is `unknown` if the operation was part of
 *   the failed write, and `not-applied` if it was queued after it or came later.
 * - `DATA_LOSS` stored data is damaged. The details identify the object.
 * - `STORE_MOVED` the directory was moved, removed or replaced while it was open. Nothing at its old path is
 *   changed, and all acknowledged operations are in the moved directory. The store continues once the
 *   directory is back.
 * - `STORE_CLOSED` the engine was closed.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an argument has the wrong form
 *
 * @example
 * import { openEngine } from 'forkspace'
 * import { levelStorage } from 'forkspace/level'
 *
 * const engine = await openEngine({ storage: levelStorage('./data') })
 * const session = await engine.sessions.create({})
 * await engine.close()
 */
export function levelStorage(directory: string, options: LevelStorageOptions = {}): Storage {
  if (typeof directory !== 'string' || directory === '' || directory.includes('\0')) {
    throw invalid('directory', `must be the path of a directory; it is ${given(directory)}`)
  }
  const { durability = 'full' } = optionsShape.read(options, 'options')
  if (durability !== 'full' && durability !== 'relaxed') {
    throw invalid('durability', `must be 'full' or 'relaxed'; it is ${given(durability)}`)
  }
  // The path is resolved now, because the working directory may change before the engine opens.
  const path = resolve(directory)
  return { open: () => openLevelStore(path, { durability }) }
}
