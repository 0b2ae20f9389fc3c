import type { BundleFiles } from '../../engine/ports.js'
import { readBlocks } from './read.js'
import { writeBlocks } from './write.js'

/**
 * Writes and reads bundles as CARv1 files: a header with one root, then the blocks. Each block follows its
 * CID (version 1, SHA-256, codec raw or json). Any reader of the format can verify and split them.
 */
export function createBundleFiles(): BundleFiles {
  return { write: writeBlocks, read: readBlocks }
}
