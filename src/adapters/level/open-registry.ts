/**
 * The stores that are open in this process. LevelDB's own lock keeps out other processes; within a process
 * it is not enough, since a second path to the same file is a second lock to it, and closing any descriptor
 * of the lock file releases the lock of the whole process.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import { EngineError } from '../../engine/ports.js'

/** Shared by every copy of this module in the process. */
const registryKey = Symbol.for('forkspace.level.open-directories')

/**
 * Enters a directory, given by its real path, and gives the function that removes it again.
 *
 * @throws EngineError `STORE_LOCKED` when it is open already.
 */
export function registerOpener(directory: string, lockFile: string): () => void {
  const open = openDirectories()
  if (open.has(directory) || heldByOtherThread(lockFile)) {
    throw new EngineError('STORE_LOCKED', 'the directory is open in this process already')
  }
  open.add(directory)
  return () => {
    open.delete(directory)
  }
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
  const descriptors = '/proc/self/fd'
  try {
    return readdirSync(descriptors).some((name) => linkTarget(`${descriptors}/${name}`) === lockFile)
  } catch {
    return false
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
