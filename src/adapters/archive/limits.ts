/** Limits and buffer sizes for archives. Sizes are in bytes unless the name has another unit. */
export const archiveLimits = {
  /** Size of a tar after inflating, or of all files of a zip together. */
  contentBytes: 16 * 2 ** 30,
  /** Largest ratio of inflated to compressed bytes. It applies once the inflated bytes exceed `ratioFromBytes`. */
  ratio: 200,
  ratioFromBytes: 128 * 2 ** 20,
  /**
   * Largest ratio of gzip data to its inflated content, not counting the first `emptyFromBytes` of gzip data. Without
   * it, a file could consist of any number of empty gzip members.
   */
  emptyRatio: 2,
  emptyFromBytes: 16 * 2 ** 20,
  /** Size of a zip. It is read from its end, so it is in memory as a whole. */
  zipBytes: 256 * 2 ** 20,
  /** Entries, including parent directories that are not listed. Zip entries take longer to read. */
  entries: 300_000,
  zipEntries: 100_000,
  /** All paths and targets of symlinks together. They are kept in memory to find duplicate paths. */
  pathBytes: 48 * 2 ** 20,
  /** Extended attributes of all entries together. */
  xattrs: 1_000_000,
  /** Pax records of all entries together. A record of a global header counts for each entry that it applies to. */
  paxRecords: 4_000_000,
  /**
   * Bytes between the contents of two entries of a tar, or after the last one. They are headers, and pax records with
   * the extended attributes of an entry. This is also the most that the pax parser reads in one step.
   */
  aheadBytes: 2 * 2 ** 20,
  /**
   * Most entries have at most `commonAheadBytes` of headers. The bytes above that, in all entries together, are limited
   * to `aheadTotalBytes`.
   */
  commonAheadBytes: 2048,
  aheadTotalBytes: 128 * 2 ** 20,
  /** Files up to this size are passed on whole, larger files in pieces of at most this size. */
  pieceBytes: 2 ** 20,
  /** A zip that arrives in pieces is kept in blocks of this size. */
  blockBytes: 2 ** 20,
  /** Size of the pieces that an inflater returns and the tar parser receives. */
  inflatedPieceBytes: 256 * 1024,
  /** Characters of a name shown in an error. */
  shownChars: 1024,
  /** Small parts of a tar are joined to pieces of at least this size. */
  writtenBytes: 64 * 1024,
} as const
