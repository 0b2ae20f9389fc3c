/**
 * Storage in a directory: segment files with an index in LevelDB.
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
   * The failures that an acknowledged operation survives. `full`, the default: the death of the process and a power
   * cut. All commits that wait together share one fdatasync. `relaxed`: only the death of the process. It is many
   * times faster for a single writer, for tests and caches.
   */
  readonly durability?: 'full' | 'relaxed'
}

const optionsShape = new Shape<LevelStorageOptions>({ durability: true })

/**
 * Storage in a directory. The directory is created when it does not exist; it must be empty or hold a
 * store. Nothing is touched before the engine opens, and the same value can be opened again after the
 * engine was closed.
 *
 * Guarantees
 * - An operation whose promise resolved is there after `kill -9`, and with `durability: 'full'` also after
 *   a power cut. An operation is stored whole or not at all.
 * - Reads verify checksums: bytes that were changed on the disk are `DATA_LOSS`, never
 *   taken for the original; everything else stays readable.
 * - One opener at a time, in this process and in others, for any spelling of the path.
 * - Other users of the system can read nothing of it: new files and directories have the modes 0600 and 0700.
 * - A store with missing files is rejected, unless the files can be rebuilt without loss.
 * - After a failed write, the store accepts no further writes until it has recovered. Reads continue.
 * - Opening a store of an earlier format rewrites it. This temporarily takes the same space again.
 *
 * Not guaranteed: several processes on one directory, and file systems without working locks and fsync (many
 * network mounts). Damage to the newest operations after a kill, before the next opening, is taken for a write
 * that was cut short.
 *
 * Errors of opening, by reason
 * - `STORE_LOCKED` the directory is already open, in this process or in another one. `details.pid`, `details.since` and
 *   `details.host` describe that process, if they are known.
 * - `STORE_FORMAT` the directory is no store and not empty, or its format is newer than this version;
 *   `details.format` and `details.supported` say which. Nothing in it was changed.
 * - `DATA_LOSS` files of the store are missing or damaged; `details.missing` names those, `details.file` and
 *   `details.offset` locate the damage.
 * - `PERMISSION_DENIED`, `STORE_FULL`, `STORE_FAILED` the directory could not be read or written.
 *
 * Errors of use, by reason
 * - `STORE_FULL`, `STORE_FAILED` a write failed. `details.outcome` is `unknown` when the operation was part
 *   of the failed write, and `not-applied` when it was queued after it or came later.
 * - `DATA_LOSS` stored data is damaged; details name the object.
 * - `STORE_MOVED` the directory was moved, removed or replaced while it was open. Nothing at its old path is changed,
 *   and all acknowledged operations are in the moved directory. The store continues once the directory is back.
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
  // Resolved now: the working directory may be another one when the engine opens.
  const path = resolve(directory)
  return { open: () => openLevelStore(path, { durability }) }
}
