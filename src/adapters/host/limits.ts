/** Limits on reading directories of the host. Sizes are in bytes. */
export const hostLimits = {
  /** Names in one scan. */
  entries: 2_000_000,
  /** Bytes of content read in one scan. */
  totalBytes: 256 * 2 ** 30,
  depth: 256,
  nameBytes: 255,
  pathBytes: 4096,
  /** Content is read in pieces of this size. */
  pieceBytes: 2 ** 20,
  /** How many times a file is read at most, if it changes during each read. */
  reads: 3,
  /** Concurrent calls of stat. */
  statsAtOnce: 32,
  /** Small files that are read ahead concurrently, and their total bytes. */
  readsAtOnce: 16,
  readAheadBytes: 8 * 2 ** 20,
  /** The number of names in one text of the index of a directory. */
  namesPerText: 4096,
  /** The number of directories of one tree that stay open for later calls. */
  openDirectories: 64,
  /** How long the outputs of a command may stay open after its end, because of a process that left its group. */
  outputGraceMs: 500,
  /** How long to wait for the end of killed processes, and the time between two looks at them. */
  groupGraceMs: 1000,
  groupStepMs: 5,
  /** The number of names that one read of a directory requests. */
  namesPerRead: 512,
} as const
