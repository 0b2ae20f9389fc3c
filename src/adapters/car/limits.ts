import { limits } from '../../engine/ports.js'

/** Bounds of what is read and written, in bytes. */
export const carLimits = {
  /** The header: a root and little else. */
  headerBytes: 1024,
  /** A block by its codec. */
  rawBytes: limits.blockBytes,
  jsonBytes: limits.bundleNodeBytes,
  /** A CID of the only kind that is written. */
  cidBytes: 64,
  /** Small blocks are given out together, up to about this. */
  pieceBytes: 64 * 1024,
} as const
