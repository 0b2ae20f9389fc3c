/** Bounds of what is read from directories of the host. Sizes are bytes. */
export const hostLimits = {
  /** Names of one scan. */
  entries: 2_000_000,
  /** Contents of one scan that are read. */
  totalBytes: 256 * 2 ** 30,
  depth: 256,
  nameBytes: 255,
  pathBytes: 4096,
  /** A content is read and written in pieces of this. */
  pieceBytes: 2 ** 20,
  /** How often a file that changes meanwhile is read. */
  reads: 3,
  /** Names that are looked at at once. */
  statsAtOnce: 32,
  /** Small files that are read ahead at once, and their bytes. */
  readsAtOnce: 16,
  readAheadBytes: 8 * 2 ** 20,
  /** Names of a directory that stand in one text of the index. */
  namesPerText: 4096,
  /** Directories of one tree that are held open beside those in use. */
  heldDirectories: 64,
  /** Names that a directory is asked for at once. */
  namesPerRead: 512,
} as const
