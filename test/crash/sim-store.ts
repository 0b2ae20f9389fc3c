import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import type { OpenSimStore } from './sim-run.js'

/** The store of segments with its index, without the lock of LevelDB. */
export const openSimStore: OpenSimStore = ({ directory, disk, durability, segmentBytes }) =>
  openLevelStore(directory, {
    durability,
    disk,
    takeLock: () => Promise.resolve({ check() {}, release: () => Promise.resolve() }),
    segmentBytes,
    flushEntries: segmentBytes >> 9,
    flushBytes: segmentBytes,
  })
