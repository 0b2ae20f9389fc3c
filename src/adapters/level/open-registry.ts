/**
 * The stores that are open in this process. LevelDB's own lock keeps out other processes; within a process
 * it is not enough, since a second path to the same file is a second lock to it, and closing any descriptor
 * of the lock file releases the lock of the whole process.
 */
import { readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { EngineError } from '../../engine/ports.js'

/** Shared by every copy of this module in the process. */
const registryKey = Symbol.for('forkspace.level.open-directories')

/**
 * Enters a directory, given by its real path, and gives the function that removes it again. A directory that has
 * several real paths, as where it is mounted twice, is known by its file too.
 *
 * @throws EngineError `STORE_LOCKED` when it is open already.
 */
export function registerOpener(directory: string, lockFile: string): () => void {
  const open = openDirectories()
  const file = fileOf(directory)
  const names = file === undefined ? [directory] : [directory, file]
  if (names.some((name) => open.has(name)) || heldByOtherThread(lockFile)) {
    throw new EngineError('STORE_LOCKED', 'the directory is open in this process already')
  }
  for (const name of names) open.add(name)
  return () => {
    for (const name of names) open.delete(name)
  }
}

/** What a path leads to, whatever its spelling; undefined when there is nothing. */
function fileOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return undefined
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
  const file = fileOf(lockFile)
  if (file === undefined) return false
  try {
    return readdirSync('/proc/self/fd').some((fd) => isLockFile(fd, file) && holdsLock(fd))
  } catch {
    return false
  }
}

/**
 * LevelDB's descriptors reach child processes, its locks do not: a descriptor without a lock was inherited.
 * Where the system does not tell, every descriptor counts.
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
    return readlinkSync(path).endsWith('/LOCK') && fileOf(path) === file
  } catch {
    return false
  }
}
