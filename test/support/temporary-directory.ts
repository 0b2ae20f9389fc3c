import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const tmpfs = 0x01021994
const sharedMemory = '/dev/shm'
const wantedBytes = 4 * 2 ** 30

/**
 * The parent of test directories: in memory if Linux has room for it. Tests create and remove tens of thousands of
 * directories, which takes many times as long on a disk. The long forms of the tests stay on disk.
 */
export function temporaryDirectory(): string {
  if (process.env['TMPDIR'] !== undefined) return tmpdir()
  try {
    const { type, bavail, bsize } = statfsSync(sharedMemory)
    if (type === tmpfs && bavail * bsize >= wantedBytes) return sharedMemory
  } catch {
    // Not available on this system.
  }
  return tmpdir()
}
