/**
 * The stores that are open in this process.
 *
 * LevelDB's own lock keeps out other processes, but is not enough within a process. There, a second path to
 * the lock file gives a second lock to it, and closing any descriptor of the file releases the lock of the
 * whole process.
 */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { EngineError, openStores } from '../../../engine/ports.js'
import { fileIdentity } from './open-directory.js'

/**
 * Registers a directory, given by its device and inode, and returns a function that unregisters it. `path` is for
 * errors. A path does not identify a directory: a directory can have several paths, and a path can refer to another
 * directory later.
 *
 * @throws EngineError `STORE_LOCKED` when it is open already.
 */
export function registerOpener(directory: string, path: string, lockFile: string): () => void {
  const open = openStores()
  if (open.has(directory) || heldByOtherThread(lockFile)) {
    throw new EngineError(
      'STORE_LOCKED',
      `the store ${path} is already open in this process. Use that engine, or close it first`,
    )
  }
  open.add(directory)
  return () => void open.delete(directory)
}

/**
 * Whether another thread of this process has the lock. Worker threads do not share the registry. On Linux, a
 * process sees the descriptors of all its threads. On other systems, LevelDB also refuses the second opener,
 * but the first one then loses its lock against other processes.
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
 * Whether a descriptor has a lock. Child processes inherit LevelDB's descriptors but not its locks, so a
 * descriptor without a lock was inherited. If the system does not report locks, every descriptor counts as
 * locked.
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
