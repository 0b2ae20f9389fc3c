/** Limits and buffer sizes for archives. Sizes are in bytes unless the name contains another unit. */
export const archiveLimits = {
  /** Size of an inflated tar, or total size of the files of a zip. */
  contentBytes: 16 * 2 ** 30,
  /**
   * Largest ratio of inflated to compressed bytes. It applies when the inflated bytes exceed
   * `ratioFromBytes`.
   */
  ratio: 200,
  ratioFromBytes: 128 * 2 ** 20,
  /**
   * Largest ratio of gzip data to its inflated content, not counting the first `emptyFromBytes` of gzip data.
   * Without this limit, a file could consist of any number of empty gzip members.
   */
  emptyRatio: 2,
  emptyFromBytes: 16 * 2 ** 20,
  /** Size of a zip. A zip is read from its end, so the whole zip is in memory. */
  zipBytes: 256 * 2 ** 20,
  /**
   * Entries, including parent directories that are not listed. The limit for a zip is lower, because its
   * entries take longer to read.
   */
  entries: 300_000,
  zipEntries: 100_000,
  /** Total size of all paths and symlink targets. They are kept in memory to find duplicate paths. */
  pathBytes: 48 * 2 ** 20,
  /** Total number of extended attributes of all entries. */
  xattrs: 1_000_000,
  /**
   * Total number of pax records of all entries. A record of a global header counts once for each entry to
   * which it applies.
   */
  paxRecords: 4_000_000,
  /**
   * Bytes between the contents of two entries of a tar, or after the last one. They are headers, and pax
   * records with the extended attributes of an entry. This is also the most that the pax parser reads in one
   * step.
   */
  aheadBytes: 2 * 2 ** 20,
  /**
   * The tar parser and the newest entry buffer at most this much content before the entry is taken. Only then is it known
   * which bytes were headers.
   */
  aheadBufferBytes: 64 * 2 ** 10,
  /**
   * Most entries have at most `commonAheadBytes` of headers. The bytes above that, in all entries together,
   * are limited to `aheadTotalBytes`. A record of a global header counts once for each entry to which it applies.
   */
  commonAheadBytes: 2048,
  aheadTotalBytes: 128 * 2 ** 20,
  /** Files up to this size are passed to the sink whole, larger files in pieces of at most this size. */
  pieceBytes: 2 ** 20,
  /** A zip that arrives in pieces is kept in blocks of this size. */
  blockBytes: 2 ** 20,
  /** Size of the pieces that an inflater returns and the tar parser receives. */
  inflatedPieceBytes: 256 * 1024,
  /** The least size of a block in which small pieces of a tar are joined. */
  keptBlockBytes: 4096,
  /** Bytes of a piece that are compared with zeros at once. */
  comparedZeroBytes: 64 * 1024,
  /** Characters of a name shown in an error. */
  shownChars: 1024,
  /** The writer joins small parts of a tar to pieces of at least this size. */
  writtenBytes: 64 * 1024,
} as const
