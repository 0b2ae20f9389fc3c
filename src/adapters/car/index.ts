import type { BundleFiles } from '../../engine/ports.js'
import { readBlocks } from './read.js'
import { writeBlocks } from './write.js'

/**
 * Bundles as CARv1 files: a header with one root, then the blocks, each behind its CID (version 1, SHA-256, codec
 * raw or json). Any reader of the format can check them and take them apart.
 */
export function createBundleFiles(): BundleFiles {
  return { write: writeBlocks, read: readBlocks }
}
