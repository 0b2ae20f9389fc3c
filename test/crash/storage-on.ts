import type { Disk } from '../../src/adapters/level/directory/disk.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import type { Storage } from '../../src/index.js'

export interface StorageOnOptions {
  readonly durability: 'full' | 'relaxed'
  readonly disk?: Disk
  readonly segmentBytes?: number
}

/** A storage in a directory on a disk other than the host's. */
export function storageOn(directory: string, options: StorageOnOptions): Storage {
  return { open: () => openLevelStore(directory, options) }
}
