/**
 * The lock that keeps other processes out of a store. Node cannot lock files, but LevelDB can. So the lock is
 * the lock file of an empty LevelDB database, which stays open as long as the store.
 */
import { readdirSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { EngineError } from '../../../engine/ports.js'
import type { Disk } from './disk.js'
import { errorCode, lockedError, movedError, openError } from '../errors.js'
import { fileIdentity } from './open-directory.js'
import { sizeOf } from './manifest.js'

const lockName = 'LOCK'

export interface StoreLock {
  /** @throws EngineError `STORE_MOVED` when another process may have taken the store since. */
  check(): void
  release(): Promise<void>
}

export interface LockPlace {
  /** The directory of the lock, as a path from {@link OpenDirectory}. It is created if it is missing. */
  readonly path: string
  /** The real path of the same directory, which another opener would use. */
  readonly realPath: string
}

/** @throws EngineError `STORE_LOCKED` when another process has the lock. */
export type TakeLock = (disk: Disk, place: LockPlace) => Promise<StoreLock>

export const takeLevelLock: TakeLock = async (disk, { path, realPath }) => {
  removeOtherEntries(path)
  // Earlier versions kept the index in this database. It is removed unread, because LevelDB ends the process
  // when it reads a damaged table.
  if (await hasContent(disk, path)) await destroyLevel(path)
  try {
    return await lockLevel(disk, path, realPath)
  } catch (error) {
    if (!(error instanceof EngineError) || error.reason !== 'DATA_LOSS') throw error
    await destroyLevel(path)
    return lockLevel(disk, path, realPath)
  }
}

async function lockLevel(disk: Disk, path: string, realPath: string): Promise<StoreLock> {
  await disk.makeDirectory(path)
  const identity = await lockIdentity(disk, path)
  const db = new ClassicLevel(path)
  try {
    await db.open()
  } catch (error) {
    throw openError(error)
  }
  // Since the lock file was created, another opener may have emptied the directory and locked a new file of
  // this name.
  if (fileIdentity(join(path, lockName)) !== identity) {
    await db.close()
    throw lockedError(undefined)
  }
  const realLock = join(realPath, lockName)
  return {
    check() {
      if (fileIdentity(realLock) !== identity) throw movedError()
    },
    release: () => db.close(),
  }
}

/**
 * The identity of the lock file, which is created if it is missing. An existing one is not opened, because
 * closing it would release a lock that this process has on it.
 */
async function lockIdentity(disk: Disk, path: string): Promise<string | undefined> {
  const lock = join(path, lockName)
  if (fileIdentity(lock) === undefined) {
    try {
      await (await disk.open(lock, 'create')).close()
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
    }
  }
  return fileIdentity(lock)
}

/**
 * Removes pipes, symlinks and other special entries from the directory of the index. LevelDB would wait for a writer of a
 * pipe, and follow a symlink. An open database has only files, and a missing one is made again.
 */
function removeOtherEntries(path: string): void {
  try {
    for (const entry of readdirSync(path, { withFileTypes: true }))
      if (!entry.isFile() && !entry.isDirectory()) unlinkSync(join(path, entry.name))
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw openError(error)
  }
}

async function hasContent(disk: Disk, path: string): Promise<boolean> {
  for (const name of await disk.list(path)) {
    if (/\.(ldb|sst)$/.test(name)) return true
    if (name.endsWith('.log') && (await sizeOf(disk, join(path, name))) > 0) return true
  }
  return false
}

/**
 * Removes the files of a database. It holds the lock meanwhile, so that no file of another opener is removed.
 */
export async function destroyLevel(path: string): Promise<void> {
  const level = ClassicLevel as unknown as { destroy(location: string): Promise<void> }
  try {
    await level.destroy(path)
  } catch (error) {
    throw openError(error)
  }
}
