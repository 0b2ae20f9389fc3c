import { limits } from '../../engine/ports.js'

/** Limits on reading and writing, in bytes. */
export const carLimits = {
  /** The header, which contains a root and little else. */
  headerBytes: 1024,
  /** A block with the codec raw. `jsonBytes` is the limit for the codec json. */
  rawBytes: limits.blockBytes,
  jsonBytes: limits.bundleNodeBytes,
  /** An upper bound on the size of a CID in a bundle. */
  cidBytes: 64,
  /** The writer joins small blocks to pieces of about this size. */
  pieceBytes: 64 * 1024,
} as const
