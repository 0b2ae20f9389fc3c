/**
 * The stores that are open in this process. LevelDB's own lock keeps out other processes; within a process
 * it is not enough, since a second path to the same file is a second lock to it, and closing any descriptor
 * of the lock file releases the lock of the whole process.
 */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { EngineError } from '../../../engine/ports.js'
import { fileIdentity } from './held-directory.js'

/** Shared by every copy of this module in the process. */
const registryKey = Symbol.for('forkspace.level.open-directories')

/**
 * Enters a directory, given by its device and inode, and returns the function that removes it again. A path does not
 * identify a directory: a directory can have several paths, and a path can refer to another directory later.
 *
 * @throws EngineError `STORE_LOCKED` when it is open already.
 */
export function registerOpener(directory: string, lockFile: string): () => void {
  const open = openDirectories()
  if (open.has(directory) || heldByOtherThread(lockFile)) {
    throw new EngineError(
      'STORE_LOCKED',
      'the store is already open in this process. Use that engine, or close it first',
    )
  }
  open.add(directory)
  return () => void open.delete(directory)
}

function openDirectories(): Set<string> {
  const shared = globalThis as unknown as Record<symbol, Set<string> | undefined>
  return (shared[registryKey] ??= new Set())
}

/**
 * Worker threads do not share the registry. Linux shows the descriptors of all threads; elsewhere LevelDB
 * refuses the second opener too, but the refusal costs the first one its lock against other processes.
 */
function heldByOtherThread(lockFile: string): boolean {
  if (process.platform !== 'linux') return false
  const file = fileIdentity(lockFile)
  if (file === undefined) return false
  try {
    return readdirSync('/proc/self/fd').some((fd) => isLockFile(fd, file) && holdsLock(fd))
  } catch {
    return false
  }
}

/**
 * LevelDB's descriptors reach child processes, its locks do not: a descriptor without a lock was inherited.
 * Where the system does not report locks, every descriptor counts.
 */
function holdsLock(fd: string): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1')
    return !info.startsWith('pos:') || /^lock:/m.test(info)
  } catch {
    return true
  }
}

function isLockFile(fd: string, file: string): boolean {
  const path = `/proc/self/fd/${fd}`
  try {
    return readlinkSync(path).endsWith('/LOCK') && fileIdentity(path) === file
  } catch {
    return false
  }
}
