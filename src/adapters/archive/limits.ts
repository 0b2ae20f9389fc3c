/** Bounds of what is read of an archive, and of how it is read. Sizes are bytes unless the name says otherwise. */
export const archiveLimits = {
  /** A tar as it stands after inflating, or the files of a zip together. */
  contentBytes: 16 * 2 ** 30,
  /** What is inflated may be this many times as large as what it came from, once it is over the second bound. */
  ratio: 200,
  ratioFromBytes: 128 * 2 ** 20,
  /** Gzip may be this many times as large as its content, beyond the second bound: members can be empty. */
  emptyRatio: 2,
  emptyFromBytes: 16 * 2 ** 20,
  /** A zip is read from its end, so the whole of it is held in memory. */
  zipBytes: 256 * 2 ** 20,
  /** Entries, and the directories that come with them unnamed; those of a zip take longer to read. */
  entries: 300_000,
  zipEntries: 100_000,
  /** The paths of all of these together, with the targets of symlinks: they are kept to find what is there twice. */
  pathBytes: 48 * 2 ** 20,
  /** Extended attributes of all entries together. */
  xattrs: 1_000_000,
  /** Pax records of all entries together; those of a global header count for each entry that has them. */
  paxRecords: 4_000_000,
  /**
   * What stands in a tar between the contents of two entries, or behind the last one: headers, and pax records with
   * the extended attributes of an entry. Pax is parsed at one go, up to here.
   */
  aheadBytes: 2 * 2 ** 20,
  /** What is over the first of these in all of an archive, where an entry needs no more as a rule. */
  commonAheadBytes: 2048,
  aheadTotalBytes: 128 * 2 ** 20,
  /** A file up to this is given whole, a larger one in pieces of at most this. */
  pieceBytes: 2 ** 20,
  /** A zip that comes in pieces is kept in blocks of this size. */
  blockBytes: 2 ** 20,
  /** What an inflater gives at once, and what of a tar is parsed at once. */
  inflatedPieceBytes: 256 * 1024,
  /** Characters of a name in an error. */
  shownChars: 1024,
  /** What a tar is written in, at least, where contents are smaller. */
  writtenBytes: 64 * 1024,
} as const
