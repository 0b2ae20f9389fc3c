/** All limits of the git adapter. Sizes are in bytes unless the name contains another unit. */
export const gitLimits = {
  /** The compressed size of a pack, as sent. */
  packBytes: 2 * 2 ** 30,
  objects: 5_000_000,
  objectBytes: 4 * 2 ** 30,
  /** A commit, a tag or a tree. */
  structureBytes: 64 * 2 ** 20,
  /**
   * All inflated objects and deltas of a pack. The same limit applies separately to the bases that are read
   * again because they are no longer in memory. The limit is the smaller of `inflatedBytes` and
   * `inflatedBytesFree` plus `inflatedBytesPerByte` for each byte received so far. Deflate alone expands up
   * to 1,032 times, and a delta of a few bytes can produce a whole file or tree again.
   */
  inflatedBytes: 16 * 2 ** 30,
  inflatedBytesFree: 128 * 2 ** 20,
  inflatedBytesPerByte: 512,
  /** The number of deltas in a chain. Native git creates no chain longer than this. */
  deltaDepth: 4095,
  /**
   * One delta, or the base of a delta, in memory. The limit is the smaller of `deltaBytes`, above which
   * native git creates no deltas, and `deltaBytesFree` plus `deltaBytesPerByte` for each byte received so
   * far.
   */
  deltaBytes: 512 * 2 ** 20,
  deltaBytesFree: 32 * 2 ** 20,
  deltaBytesPerByte: 16,
  /** Deltas of one pack that wait for a base later in the pack. */
  pendingDeltaBytes: 32 * 2 ** 20,
  /** Cached objects of a pack or repository that deltas may build on. */
  baseCacheBytes: 32 * 2 ** 20,
  /** Compressed objects that a server keeps for later fetches. Larger ones are compressed each time. */
  entryCacheBytes: 32 * 2 ** 20,
  cachedEntryBytes: 64 * 1024,
  /** The approximate memory of such an object without its bytes. */
  cachedEntryCost: 256,
  /** Larger blobs are streamed in pieces. Larger objects of any type are inflated off the main thread. */
  streamedBlobBytes: 4 * 2 ** 20,
  /** A piece of streamed content. */
  pieceBytes: 256 * 1024,
  /**
   * Files of a local repository are read in windows of `windowBytes`. The cache keeps `windowCacheBytes` of
   * them.
   */
  windowBytes: 128 * 1024,
  windowCacheBytes: 16 * 2 ** 20,
  openFiles: 64,
  /**
   * A bundle, which is held in memory while it is read. `bundleHeaderBytes` limits its header, which lists
   * the refs.
   */
  bundleBytes: 512 * 2 ** 20,
  bundleHeaderBytes: 16 * 2 ** 20,
  /** Tree entries that one import visits, and entries of one directory. */
  entries: 5_000_000,
  directoryEntries: 500_000,
  /**
   * Entries of trees that the import has visited before. The limit is `repeatedEntries` plus
   * `repeatsPerEntry` for each entry visited for the first time.
   */
  repeatedEntries: 200_000,
  repeatsPerEntry: 16,
  /** Known commits that a fetch announces to the remote, newest first. */
  haves: 16,
  /** Commits before a revision that an import reads, to find the commits that the engine pushed. */
  historyCommits: 4096,
  /** These commits, without their files, as a remote sends them. */
  historyBytes: 16 * 2 ** 20,
  /** A commit may have a time that is earlier than that of its parent by this much. */
  clockSkewSeconds: 24 * 60 * 60,
  /** The last time of a commit: the end of the year 9999. RFC 3339 has no form for a later one. */
  lastCommitSecond: 253_402_300_799,
  tagDepth: 16,
  /**
   * Bytes that a remote may send in addition to a pack, such as its list of refs. `capabilityBytes` limits its
   * capabilities in version 2 of the protocol, and `reportBytes` its report on a push.
   */
  refsBytes: 64 * 2 ** 20,
  capabilityBytes: 2 ** 20,
  reportBytes: 2 ** 20,
  /** A config file or ref file of a local repository. */
  textBytes: 2 ** 20,
  /** Refs of a local repository, bytes in the name of one, packs, and object directories. */
  refs: 1_000_000,
  refNameBytes: 4096,
  packs: 10_000,
  objectDirectories: 64,
  /** Content of a packet of `side-band-64k`. */
  bandBytes: 65_515,
  errorBodyBytes: 64 * 1024,
  /**
   * A response that the remote compresses as a whole may expand to `decodedFreeBytes` plus `decodedBytesPerByte` for each
   * byte received so far. Otherwise, the limits of a pack in proportion to its bytes would not hold.
   */
  decodedFreeBytes: 16 * 2 ** 20,
  decodedBytesPerByte: 16,
  remoteMessageChars: 4096,
  branchNameBytes: 1024,
  redirects: 5,
  idleTimeoutMs: 60_000,
  /** Larger bodies are compressed off the main thread. */
  asyncDeflateBytes: 256 * 1024,
  /**
   * A push to a repository on this host stores up to this many objects as loose objects, and more as a pack.
   */
  looseObjects: 100,
  /** How long to wait for a ref that another process has locked. */
  lockWaitMs: 1000,
  /** Time between two attempts to take such a lock. */
  lockRetryMs: 20,
  /** Symbolic refs on the way to a ref. */
  symrefDepth: 5,
  /** Instructions of deltas carried out in one step, which takes a few milliseconds at most. */
  deltaInstructions: 64 * 1024,
  /** Up to this many bytes, a loop copies faster than `set`. */
  copyLoopBytes: 48,
  /** Objects up to this size, with their header, are hashed in one call over shared memory. */
  scratchBytes: 16 * 1024,
  /** Bytes of a new object that are hashed at once. */
  hashedBytes: 2 ** 20,
  /** The minimum number of bytes to read ahead, and the maximum to hash at once, unless one object is larger. */
  readAheadBytes: 256 * 1024,
  /** Bytes of a pack that are written or sent in one step. */
  packStepBytes: 2 ** 20,
  /** The least size of the pieces in which a loose object is inflated. */
  smallPieceBytes: 4096,
  /** A piece of the memory that holds a pack. */
  memoryPieceBytes: 2 ** 20,
  /** Bytes of new files that are written as one group. */
  fileGroupBytes: 2 ** 20,
  /** Entries of a tree that are decoded in one step. */
  entriesPerPart: 4096,
  /** A smaller packet counts as this many bytes, because reading it costs as much. */
  leastPacketBytes: 64,
  /** Ids of missing objects, and branches of a remote, that an error names, and characters of an unknown name. */
  shownOids: 100,
  shownBranches: 20,
  shownLength: 100,
} as const
