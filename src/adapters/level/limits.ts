/** Limits of the store in a directory. Sizes are in bytes unless the name has another unit. */
export const levelLimits = {
  /** A segment of this size is sealed, and another one is started. */
  segmentBytes: 128 * 2 ** 20,
  /** The index is flushed when it lacks this many entries. */
  flushEntries: 8192,
  /** The index is flushed when it lacks entries of this many bytes. */
  flushBytes: 8 * 2 ** 20,
  /** Commits wait for the index when it lags by this many flushes. */
  flushesBehind: 2,
  /** The entries of this many flushes are gathered before they go to the pages. */
  flushesPerMerge: 4,
  /** A store that closes leaves fewer entries than this outside of the pages, because each opening decodes them. */
  openedEntries: 1024,
  /** The entries outside of the pages go to the pages once as many flushes have stored them. */
  deltas: 32,
  /** A file of the index with more batches is rewritten on closing, because each opening reads all their tables. */
  openedBatches: 64,
  /** The file of a larger index is not rewritten on closing, because that would take long. */
  closedBytes: 4 * 2 ** 20,
  /** The most bytes that are reserved at once after the frames of the newest segment. */
  reservedBytes: 2 ** 20,
  /** Bytes that are reserved first. */
  reservedBytesMin: 16 * 1024,
  /** After a write of more bytes, no space is reserved. The size of the file is a small part of its sync. */
  reservingBytes: 128 * 1024,
  /**
   * If the last sync took at most this long, in milliseconds, a commit that is alone blocks the event loop until the disk
   * has answered.
   */
  blockingSyncMs: 1,
  /** A sync of more bytes never blocks the event loop. */
  blockingSyncBytes: 64 * 1024,
  /** A group takes no further commit above this. One commit is never split. */
  groupBytes: 8 * 2 ** 20,
  /** Memory for a frame whose size is not known. It grows with the frame. */
  expectedFrameBytes: 256,
  /**
   * For this long after a check of the place, in milliseconds, no other process can have opened the store and written to
   * it. A steady writer checks about once in this time.
   */
  placeHoldsMs: 1,
  /** Memory that small frames share. */
  slabBytes: 256 * 1024,
  /** A frame above this has memory of its own. */
  slabShareBytes: 16 * 1024,
  /** Checksums of up to this many bytes are computed without a call of zlib. */
  checksumBytes: 64,
  /** The most pieces that one system call accepts. */
  piecesPerWrite: 1024,
  /** Writes of up to this size are synchronous, because starting them on another thread takes longer. */
  syncWriteBytes: 256 * 1024,
  /** Reads of up to this size are synchronous. */
  syncReadBytes: 16 * 1024,
  /** How long synchronous reads may block the event loop between two of its turns, in milliseconds. */
  syncReadMs: 4,
  /** Entries with gaps up to this size are read at once. */
  gapBytes: 4096,
  /** Entries that are read at once, with the gaps between them. */
  readBytes: 256 * 1024,
  /** If at least this share of a blob is needed, the blob is read in one piece with its description. */
  wholeBlobShare: 0.5,
  /** Sessions whose next event is remembered. */
  knownSessions: 65_536,
  /** A segment is rewritten if at most this share of it is needed. */
  neededShare: 0.5,
  /** Entries of a rewritten segment that are committed at once. */
  reclaimedEntries: 1000,
  /** Bytes of a rewritten segment that are committed at once. */
  reclaimedBytes: 2 ** 20,
  /** Segments and files are searched for frames in windows of this size. */
  scannedBytes: 2 ** 20,
  /** Bytes of a segment that recovery writes again at once. */
  copiedBytes: 2 ** 20,
  /** A page of the index that is split becomes pages of about this size. */
  pageBytes: 4096,
  /** A smaller page is merged with the next one. */
  pageBytesMin: 1024,
  /** A larger page is split. */
  pageBytesMax: 8192,
  /** A page that gets more new entries than this at once is decoded. */
  addedToPage: 256,
  /** Memory in which a page is encoded. Before it is encoded, only a bound of its size is known. */
  encodedBytes: 64 * 1024,
  /** Pages of the index in memory. */
  cachedPages: 1024,
  /** Bytes of changed pages in memory, approximately. Beyond this, pages are stored before the root. */
  changedPageBytes: 2 ** 20,
  /** A flush gives the event loop a turn after this many milliseconds. */
  sliceMs: 4,
  /** A chunk with more keys than this is split. An insertion moves at most this many keys. */
  keysPerChunk: 512,
  /** Entries of one range that are read at once. */
  entriesPerRead: 1000,
  /** Entries that are added to the index at once when it is rebuilt from the segments. */
  rebuiltEntries: 65_536,
  /** The file of the index is rewritten when it has more unneeded bytes than this, and more of them than needed ones. */
  unneededBytes: 4 * 2 ** 20,
  /** Bytes of a batch during that rewrite, approximately. */
  rewrittenBytes: 2 ** 20,
  /** The file that is written to see whether the disk has space. LevelDB writes less when it is opened. */
  probeBytes: 8 * 2 ** 20,
  /** Bytes of a marker or manifest that are read. Neither ever has as many. */
  manifestBytes: 64 * 2 ** 20,
  /** Characters of the name of a host in `owner.json`. */
  hostNameLength: 255,
  /** Missing files that an error lists. */
  namedFiles: 10,
  /** Bytes at the end of a file that are read to see whether they are zeros. */
  endBytes: 512,
  /** How often a backup reads the manifest again while a store in use starts other segments. */
  manifestLooks: 100,
  /** Bytes of a backup that are written at once. */
  backupBytes: 2 ** 20,
  /** A range that cannot be read is skipped in pieces of this size. */
  unreadableBytes: 4096,
  /** How often a store in the old format is read again while another process with the lock replaces its files. */
  oldFileLooks: 10,
  /** A block of an old table that lists other blocks. LevelDB writes tables of 2 MiB. */
  oldBlockBytes: 64 * 2 ** 20,
  /** Bytes of an old store that are migrated at once. */
  migratedBytes: 2 ** 20,
} as const
