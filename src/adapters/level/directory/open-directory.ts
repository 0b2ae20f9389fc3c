/**
 * The directory of an open store. An operator can move this directory and put another store at its path. Even
 * then, the store must use only the directory that it opened.
 */
import { closeSync, constants, openSync, statSync } from 'node:fs'
import type { Disk } from './disk.js'
import { movedError } from '../errors.js'

const directoryFlags = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NONBLOCK ?? 0)

export interface OpenDirectory {
  /**
   * A path of the opened directory. If the system has paths for descriptors, it stays valid when the
   * directory is moved.
   */
  readonly path: string
  /** The given disk, guarded if necessary so that changes cannot reach another directory. */
  readonly disk: Disk
  /** Device and inode, as one text. */
  readonly identity: string
  /** Whether the opened path still refers to this directory. */
  isAtPath(): boolean
  close(): void
}

/**
 * Opens a directory, given by its real path, for as long as the store is open. It uses a descriptor if the system has
 * paths for descriptors.
 * Otherwise, it checks the directory's identity before each change.
 */
export function openDirectory(
  disk: Disk,
  directory: string,
  by: 'descriptor' | 'identity' = 'descriptor',
): OpenDirectory {
  // Windows cannot open directories, and does not move one with open files in it. The descriptor is a number
  // and no handle, because the path of the lock depends on it: a handle could be closed by garbage
  // collection.
  let descriptor = process.platform === 'win32' ? undefined : openSync(directory, directoryFlags)
  const identity = fileIdentity(directory)
  const byDescriptor = by === 'descriptor' ? `/proc/self/fd/${descriptor}` : directory
  const viaDescriptor =
    identity !== undefined && byDescriptor !== directory && fileIdentity(byDescriptor) === identity
  const isAtPath = (): boolean => fileIdentity(directory) === identity
  return {
    path: viaDescriptor ? byDescriptor : directory,
    disk: viaDescriptor ? disk : guardedDisk(disk, isAtPath),
    identity: identity ?? directory,
    isAtPath,
    close() {
      if (descriptor !== undefined) closeSync(descriptor)
      descriptor = undefined
    },
  }
}

/** Holds a directory by its path alone, for a disk that no other user can change. */
export function unguardedDirectory(disk: Disk, directory: string): OpenDirectory {
  return { path: directory, disk, identity: directory, isAtPath: () => true, close() {} }
}

/** Device and inode of the file at a path. Undefined if there is none. */
export function fileIdentity(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return undefined
  }
}

/** A disk that checks before each change that the path still refers to the right directory. */
function guardedDisk(disk: Disk, isAtPath: () => boolean): Disk {
  const check = (): void => {
    if (!isAtPath()) throw movedError()
  }
  return {
    ...disk,
    async makeDirectory(directory) {
      check()
      return disk.makeDirectory(directory)
    },
    async open(path, mode) {
      check()
      return disk.open(path, mode)
    },
    async rename(from, to) {
      check()
      await disk.rename(from, to)
    },
    async remove(path) {
      check()
      await disk.remove(path)
    },
  }
}
