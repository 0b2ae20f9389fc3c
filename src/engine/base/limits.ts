/** Every bound of the engine. Sizes are bytes unless the name says otherwise. */
export const limits = {
  nameBytes: 255,
  pathBytes: 4096,
  /** As on Linux: a path of 4,096 bytes with the NUL at its end. */
  symlinkTargetBytes: 4095,
  pathDepth: 256,
  symlinkHops: 40,
  /** Default of `maxFileBytes`; the option can raise it up to 2^53 − 1. */
  fileBytes: 64 * 2 ** 30,
  pageSizeDefault: 1000,
  pageSizeMax: 10_000,
  tagEntries: 64,
  tagKeyBytes: 128,
  tagValueBytes: 1024,
  labelBytes: 1024,
  messageBytes: 64 * 1024,
  /** Default and bound of `imports.deadlineSeconds`: six hours, and a week. */
  importSeconds: 6 * 3600,
  importSecondsMax: 7 * 86_400,
  /** Default and bound of `imports.minBytesPerSecond`. */
  importBytesPerSecond: 1024,
  importBytesPerSecondMax: 2 ** 30,
  /** Default and bound of `imports.rateWindowSeconds`. */
  importWindowSeconds: 120,
  importWindowSecondsMax: 3600,
  /** How long `close()` waits for commits on their way to a remote, in milliseconds. */
  commitGraceMs: 10_000,
  /** Characters of an error's message that a job keeps. */
  errorMessageLength: 4096,
  /** Findings that a check reports one by one. */
  checkFindings: 1000,
  batchOperations: 10_000,
  /** Chunks of one batch or patch, over all of its files. */
  segments: 100_000,
  xattrNameBytes: 255,
  xattrValueBytes: 64 * 1024,
  xattrsPerNode: 256,
  globBytes: 4096,
  /** Alternatives of all braces and groups of a glob together, numbers of ranges included. */
  globAlternatives: 1000,
  globNesting: 10,
  /** Requests of a session that wait for a POSIX lock. */
  lockWaiters: 1000,
  /** POSIX locks of a session: ranges of one kind of one owner; waiters may go over it by two each. */
  heldLocks: 10_000,
  /** File locks of a session. */
  fileLocks: 10_000,
  /** The longest life of a file lock that is not renewed, in seconds. */
  fileLockSeconds: 86_400,
  /** Annotations of a session, and the bytes of all their comments. */
  annotations: 10_000,
  annotationBytes: 16 * 2 ** 20,
  /** Approvals of a session, decided or not. */
  approvals: 10_000,
  /** Master keys that an engine is opened with in addition to the current one. */
  previousKeys: 1_000,
  /** Directories of the option `hostPaths.roots`. */
  hostPathRoots: 1_000,
  /** Paths that a request for an approval names. */
  changedFiles: 10_000,
  cacheKeyBytes: 1024,
  cacheValueBytes: 8 * 2 ** 20,
  /** Default of `cacheBytes`: keys and values of a session's cache together. */
  cacheBytes: 64 * 2 ** 20,
  /** Entries of a session's cache. */
  cacheEntries: 100_000,
  /** A cached value up to this is stored in its record, a larger one in blobs. */
  cacheInlineBytes: 4096,
  /** The longest time to live of a cache entry, in seconds: a year. */
  cacheSeconds: 365 * 86_400,
  busTopicBytes: 1024,
  busPayloadBytes: 2 ** 20,
  /** Messages of a session that are kept for replay, and the bytes of their payloads; the newest is kept always. */
  busKeptMessages: 1000,
  busKeptBytes: 16 * 2 ** 20,
  /** Subscriptions of a session. */
  busSubscribers: 1000,
  /** Topics, and as many patterns, of one subscription. */
  busTopics: 256,
  /** Signs of all different patterns of a session's subscriptions: each may look at each character of a topic. */
  busPatternSize: 16_384,
  /** The queue of one subscriber: messages, and the bytes of their payloads. */
  busWaitingMessages: 10_000,
  busWaitingBytes: 2 * 2 ** 20,
  /** A message's payload up to this is copied for a subscriber when it is handed over, a larger one when it is read. */
  busCopiedBytes: 16 * 1024,
  /** A report of tests. */
  reportBytes: 16 * 2 ** 20,
  /** Reports of a session that are kept; older ones are forgotten. */
  healthReports: 1000,
  secretNameBytes: 128,
  secretValueBytes: 64 * 1024,
  /** Secrets of a session. */
  secrets: 1000,
  /** Secrets that a rotation of keys writes at once. */
  secretsPerCommit: 32,
  /** The id of a master key. */
  masterKeyIdBytes: 128,
  /** A file is cut into blocks of this size; a block is the largest blob. */
  blockBytes: 1 << 20,
  blocksPerChunk: 1024,
  /** A write that would give a block more extents than this writes the block anew as one blob. */
  extentsPerBlock: 512,
  /** Remembered hashes of contents of several blobs; more than a batch has operations. */
  rememberedHashes: 16_384,
  /** What one read gives at most, as in Node. */
  readBytes: 2 ** 31 - 1,
  /** A body of more extents than this is stored as a node of its own. */
  inlineExtents: 64,
  /** A run of names without a canonical page end is cut by position at this many. */
  namesPerPage: 1024,
  /** Work on a frozen tree yields to the event loop after this many milliseconds. */
  sliceMs: 8,
  /** Between two times that a session's last read is stored, in milliseconds. */
  activityStoredMs: 60_000,
  /** If the clock lags the newest event of a session by at most this many milliseconds, new events repeat its time. */
  clockHoldMs: 300_000,
  /** Recorded times at which the clock of a session was set back. */
  clockSetBacks: 100,
  /**
   * How long an engine is open before it deletes a session whose time was over when it was opened, in milliseconds, or
   * as long as the session lives unused, if that is less.
   */
  expirySecondLookMs: 600_000,
  /** Sessions of which it is kept in memory that they were used while the wall clock had jumped. */
  unsureUses: 10_000,
  /** Events between two snapshots of a session on a durable store. */
  eventsPerSnapshot: 2000,
  /** Roots of checkpoints kept in memory per session; older ones are found again by replay. */
  pinnedRoots: 4096,
  /**
   * Default of `memoryBudgetBytes`: the cache of data that a durable store already has. A quarter
   * is for blobs, a half for tree nodes, a quarter for sessions; each is counted roughly.
   */
  memoryBudgetBytes: 128 * 2 ** 20,
  /** The least `memoryBudgetBytes`. */
  memoryBudgetMinBytes: 2 ** 20,
  /** Of the part for sessions, one in so many for one session's earlier states, and for its newest while it is idle. */
  sessionShare: 8,
  /** Commits and openings between two measurements of the sessions in memory; more where there are many. */
  sessionsLookedAt: 64,
  /** A session that is not used leaves memory as it is when opening it replays at most so many events. */
  eventsWithoutSnapshot: 64,
  /** Pause before a store that could not recover is tried again, in milliseconds; doubled each time. */
  recoveryPauseMs: 50,
  recoveryPauseMaxMs: 1000,
  /** A clean blob above this is not kept in memory. */
  cachedBlobBytes: 64 * 1024,
  /** Blob bytes gathered into one storage commit during an import. */
  importCommitBytes: 4 * 2 ** 20,
  /** Records gathered into one storage commit during an import. */
  recordsPerCommit: 4096,
  /** Raw git trees and commits that an import keeps at hand. */
  gitObjectBytes: 64 * 2 ** 20,
  /** Commits of a remote that a fetch announces when it asks for another. */
  knownCommits: 8,
  /** In a bundle, a text of records, and a list of a tree, is cut into blocks of about this. */
  bundlePieceBytes: 256 * 1024,
  /** The largest block of a bundle that is not a blob. */
  bundleNodeBytes: 4 * 2 ** 20,
  /** A record of a bundle, such as an event. */
  bundleLineBytes: 16 * 2 ** 20,
  /** Blocks of a bundle that are trees, and such that are contents. */
  bundleNodes: 2 ** 20,
  bundleBlobs: 2 ** 22,
  bundleCheckpoints: 100_000,
  /** Files of several names in one state of a bundle. */
  bundleLinkedFiles: 2 ** 18,
  /** States of a session of which an export keeps the roots between its two passes; of more it finds them twice. */
  bundleHeldStates: 256,
  /** Contents hashed for one page of a manifest; a page that needs more ends early. */
  manifestHashBytes: 2 ** 30,
  /** Index of the files in a directory of the host: lines in memory, and lines in one record. */
  checkoutLines: 50_000,
  checkoutLinesPerText: 4096,
  /** Paths that one sync of a directory of the host may change. */
  checkoutChanges: 100_000,
  /** Records read from storage at once where a filter may pass over many. */
  recordsPerScan: 256,
  /** About the bytes of records that are read from storage at once. */
  scannedBytes: 2 ** 20,
  /** About the effects of events that are read from storage at once. */
  effectsPerRead: 10_000,
  /** Digests of which a set knows exactly which it has, in about 4 MiB; of more it has a filter. */
  exactDigests: 2 ** 17,
  /** The filter of writes during work whose references are not stored yet. */
  recentWritesBytes: 4 * 2 ** 20,
  /** Of `memoryBudgetBytes` a collection has one in so many for its marks, and these bytes at least, and at most. */
  markShare: 8,
  markMinBytes: 4 * 2 ** 20,
  markMaxBytes: 2 ** 29,
  /** Default and least of `automaticCollection.garbageBytes`. */
  garbageBytes: 64 * 2 ** 20,
  garbageMinBytes: 64 * 1024,
  /** The store's size is read when a part of `garbageBytes` was committed: one in so many. */
  looksPerCollection: 8,
  /** Pause after an automatic collection failed, in milliseconds; doubled each time. */
  collectionPauseMs: 1000,
  collectionPauseMaxMs: 600_000,
  /** Sessions of which a collection takes older redo, or everything, at once. */
  sessionsPerPrune: 1024,
  /** Records of a ledger that become one at most. */
  recordsPerCompaction: 16_384,
  /** Events read from storage at once. */
  eventsPerRead: 1000,
  /** Acknowledgements from memory before the event loop gets a turn. */
  acknowledgementsPerTurn: 64,
} as const
