import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import type { OpenSimStore } from './sim-run.js'

/** The store of segments, with an index that crashes roll back. */
export const openSimStore: OpenSimStore = ({ directory, disk, index, durability, segmentBytes }) =>
  openLevelStore(directory, {
    durability,
    disk,
    takeLock: () => Promise.resolve({ check() {}, release: () => Promise.resolve() }),
    openIndex: (_disk, _directory, options) => index.open(options),
    segmentBytes,
    flushEntries: segmentBytes >> 9,
    flushBytes: segmentBytes,
  })
