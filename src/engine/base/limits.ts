/** Every bound of the engine. Sizes are bytes unless the name says otherwise. */
export const limits = {
  /** A name in a path. */
  nameBytes: 255,
  /** A path. */
  pathBytes: 4096,
  /** The target of a symlink. As on Linux: 4,096 bytes with the NUL at the end. */
  symlinkTargetBytes: 4095,
  /** Names in a path. */
  pathDepth: 256,
  /** Symlinks that resolving one path may follow. */
  symlinkHops: 40,
  /** Symlinks that `fs.realpath` may follow. */
  realpathHops: 100,
  /** Default of `maxFileBytes`; the option can raise it up to 2^53 − 1. */
  fileBytes: 64 * 2 ** 30,
  /** Entries per page if `pageSize` is 0 or absent. */
  pageSizeDefault: 1000,
  /** Entries per page. A larger `pageSize` is reduced to it. */
  pageSizeMax: 10_000,
  /** The approximate JSON, in bytes, of one page of events, sessions or commits. A larger page ends early. */
  pageBytes: 8 * 2 ** 20,
  /** Tags of a session. */
  tagEntries: 64,
  /** A key of a tag. */
  tagKeyBytes: 128,
  /** A value of a tag. */
  tagValueBytes: 1024,
  /** The metadata of a checkpoint or fork, as JSON. */
  metadataBytes: 4096,
  /** Nested objects and arrays in metadata, the outermost included. */
  metadataDepth: 8,
  /** Sessions that one page of children looks at. A page that needs more ends early. */
  lineageScan: 10_000,
  /** A label, and other short texts such as a display name, a branch, a tenant or a principal. */
  labelBytes: 1024,
  /** A comment, summary, feedback, commit message or other longer text. */
  messageBytes: 64 * 1024,
  /** Default of `imports.deadlineSeconds`, in seconds: six hours. */
  importSeconds: 6 * 3600,
  /** The largest `imports.deadlineSeconds`, in seconds: a week. */
  importSecondsMax: 7 * 86_400,
  /** Default of `imports.minBytesPerSecond`. */
  importBytesPerSecond: 1024,
  /** The largest `imports.minBytesPerSecond`. */
  importBytesPerSecondMax: 2 ** 30,
  /** Default of `imports.rateWindowSeconds`, in seconds. */
  importWindowSeconds: 120,
  /** The largest `imports.rateWindowSeconds`, in seconds. */
  importWindowSecondsMax: 3600,
  /** Jobs of a tenant that run or wait for their turn, because each may keep the content of its request. */
  unfinishedJobs: 1000,
  /** How long `close()` waits for commits that are being sent to a remote, in milliseconds. */
  commitGraceMs: 10_000,
  /** Characters of an error's message that a job keeps. */
  errorMessageLength: 4096,
  /** Characters of a caller's value or name that an error repeats. */
  shownLength: 64,
  /** Paths that an error or event lists in its details. */
  pathsInDetails: 100,
  /** Paths under each heading of the summary of a commit. */
  summaryPaths: 20,
  /** Characters of a mistyped name that is compared with the known ones. */
  comparedNameLength: 64,
  /** Findings that a check reports one by one. */
  checkFindings: 1000,
  /** Operations of one batch, files of one patch, and entries of other lists in requests. */
  batchOperations: 10_000,
  /** Chunks of one batch or patch, over all of its files. */
  segments: 100_000,
  /** The name of an extended attribute. */
  xattrNameBytes: 255,
  /** The value of an extended attribute. */
  xattrValueBytes: 64 * 1024,
  /** Extended attributes of one file or directory. */
  xattrsPerNode: 256,
  /** A glob pattern. */
  globBytes: 4096,
  /** Alternatives in all braces and groups of a glob, including the numbers in ranges. */
  globAlternatives: 1000,
  /** Levels of braces and groups in a glob. */
  globNesting: 10,
  /** Characters between the braces of a range, such as `1..9`. */
  globRangeLength: 64,
  /** A file whose text is edited or searched. */
  textFileBytes: 16 * 2 ** 20,
  /** Edits of one call of `session.text.edit`. */
  textEdits: 1000,
  /** The old or the new text of an edit. */
  editTextBytes: 2 ** 20,
  /** Replacements of one call with `all`. */
  editReplacements: 1_000_000,
  /** Bytes of a file times the edits of one call, each of which searches the whole file. */
  editWork: 2 ** 30,
  /** Ranges of changed lines that an edit reports. */
  editRanges: 1000,
  /** Lines that an edit returns around its changes. */
  editHunkLines: 1000,
  /** Places of matches that the error NOT_UNIQUE shows. */
  shownMatches: 20,
  /** Lines that the error NO_MATCH shows. */
  nearestLines: 3,
  /** Characters of a line that the error NO_MATCH shows and compares. */
  nearestLineLength: 160,
  /** Lines of an edit that the search for the nearest lines compares. */
  comparedLines: 1000,
  /** Lines of a file that the search for a similar line compares. */
  similarLines: 20_000,
  /** The least similarity of a nearest line, from 0 to 1. */
  leastSimilarity: 0.3,
  /** A text search that could compare more characters than this uses an algorithm of linear time. */
  indexOfComparisons: 2 ** 28,
  /** Steps of a search in a text between two looks at the clock. */
  charactersPerLook: 65_536,
  /** Lines that are cut, numbered or written between two looks at the clock. */
  linesPerLook: 16_384,
  /** A patch. */
  patchBytes: 4 * 2 ** 20,
  /** A line of a patch that has names of files. */
  patchHeaderLength: 65_536,
  /** Files of one patch. */
  patchFiles: 10_000,
  /** Hunks of a patch, or sections in the format V4A. */
  patchHunks: 100_000,
  /** Lines of files with which all hunks or sections of one patch are compared, together. */
  patchWork: 2 ** 30,
  /** Data of all binary changes of one patch, after decompression. */
  patchBinaryBytes: 64 * 2 ** 20,
  /** New contents of all files of one patch that change an existing file. */
  patchContentBytes: 256 * 2 ** 20,
  /** The smallest piece in which data of a binary change is decompressed. */
  inflateChunkMinBytes: 64,
  /** The largest piece in which data of a binary change is decompressed. */
  inflateChunkBytes: 2 ** 18,
  /** Instructions of a delta in a patch between two looks at the clock. */
  deltaInstructionsPerLook: 4096,
  /** Lines of context that `fuzz` may ignore at each end of a hunk. */
  patchFuzz: 3,
  /** Lines that `session.text.readLines` returns by default. */
  readLinesDefault: 2000,
  /** The most lines that `session.text.readLines` returns. */
  readLines: 10_000,
  /** Bytes of lines that one call of `session.text.readLines` or `session.text.grep` returns. */
  readLinesBytes: 4 * 2 ** 20,
  /** A file whose lines are read. */
  readLinesFileBytes: 2 ** 30,
  /** Characters of a line that are returned, by default. */
  lineLengthDefault: 2000,
  /** The most characters of a line that are returned. */
  lineLength: 100_000,
  /** Patterns in each list of globs of a search. */
  searchGlobs: 100,
  /** Characters of all patterns in such a list. Each takes time to parse, and for each path. */
  searchGlobsSize: 65_536,
  /** Entries or matches that a search returns by default. */
  searchResultsDefault: 1000,
  /** The most entries or matches that a search returns. */
  searchResults: 10_000,
  /** The most results that a search skips with `offset`. */
  searchOffset: 1_000_000,
  /** Characters of the pattern of `session.text.grep`. */
  grepPatternLength: 1000,
  /** Instructions of a compiled regular expression. */
  grepProgramSize: 5000,
  /** Characters of a line against which a regular expression is matched. */
  grepLineLength: 2 ** 18,
  /** A file that a regular expression over several lines searches. */
  grepMultilineBytes: 4 * 2 ** 20,
  /** Characters times instructions of one match of a regular expression against several lines, which blocks. */
  grepMultilineSteps: 2 ** 26,
  /** Characters times instructions of one match of a regular expression against a line. Longer lines are cut. */
  grepLineSteps: 2 ** 24,
  /** Characters times instructions between two looks at the clock. */
  grepStepsPerLook: 2 ** 22,
  /** Lines of context before or after a match, or around the change of an edit. */
  contextLines: 100,
  /** Queries whose results are remembered. */
  grepQueries: 32,
  /** Memory for remembered results of searches. */
  grepCacheBytes: 16 * 2 ** 20,
  /** Bytes of text times searches that an edit carries out in one turn of the event loop. */
  computedAtOnceBytes: 2 ** 16,
  /** Requests of a session that wait for a POSIX lock. */
  lockWaiters: 1000,
  /**
   * POSIX locks of a session. Each lock is a range of one kind and owner. A request that waited may exceed
   * the limit by two.
   */
  heldLocks: 10_000,
  /** How often an engine looks for jobs of engines that have ended, and for its jobs that others aborted, in milliseconds. */
  sharedSweepMs: 5000,
  /** The shortest pause between counts of the contents that other engines store, for budgets, in milliseconds. */
  sharedRecountMs: 10_000,
  /** Such a pause is at least this many times as long as the last count took. */
  sharedRecountPauses: 20,
  /** The share of `budgets.sessionBytes` from which on a session is counted again too. */
  sharedRecountShare: 0.75,
  /** How often an engine reads a job that another engine runs, in milliseconds. */
  sharedJobPollMs: 200,
  /** How often a change runs while other engines change the same session. */
  sharedChangeRuns: 20,
  /** How often an engine looks whether another one collects their store, in milliseconds. */
  sharedEpochMs: 500,
  /** The same during a collection. */
  sharedEpochBusyMs: 50,
  /** How long a collection waits for the other engines at once, in milliseconds. */
  sharedBarrierMs: 600_000,
  /** How often a collection begins again because an engine ended meanwhile. */
  sharedCollectionRuns: 5,
  /** Names in one text that an engine publishes for a collection. */
  namesPerPin: 4096,
  /** Such texts in one statement. */
  pinsPerStatement: 16,
  /** File locks of a session. */
  fileLocks: 10_000,
  /** The longest time to live of a file lock, in seconds. */
  fileLockSeconds: 86_400,
  /** Annotations of a session. */
  annotations: 10_000,
  /** The comments of all annotations of a session together, as JSON. */
  annotationBytes: 16 * 2 ** 20,
  /** Approvals of a session, pending and decided. */
  approvals: 10_000,
  /** The texts and paths of all approvals of a session together, as JSON. */
  approvalBytes: 64 * 2 ** 20,
  /** The memory of a path in an approval besides its text. It counts as text, because short paths take more than their text. */
  approvalPathBytes: 32,
  /** Master keys that an engine is opened with in addition to the current one. */
  previousKeys: 1_000,
  /** Directories of the option `hostPaths.roots`. */
  hostPathRoots: 1_000,
  /** Paths in a request for an approval. */
  changedFiles: 10_000,
  /** A key of the cache. */
  cacheKeyBytes: 1024,
  /** A value of the cache. */
  cacheValueBytes: 8 * 2 ** 20,
  /** Default of `cacheBytes`: all keys and values in a session's cache. */
  cacheBytes: 64 * 2 ** 20,
  /** Entries of a session's cache. */
  cacheEntries: 100_000,
  /** Cached values up to this size are stored in their record, larger ones in blobs. */
  cacheInlineBytes: 4096,
  /** The longest time to live of a cache entry, in seconds: a year. */
  cacheSeconds: 365 * 86_400,
  /** Values of a batch with more bytes than this are encoded in slices. */
  cacheBytesAtOnce: 2 ** 20,
  /** Entries of a cache that are taken out in one step. */
  cacheEntriesPerStep: 1000,
  /** Stale keys and expiries of a cache, above twice the number of its entries. */
  cacheStaleEntries: 64,
  /** The topic of a message. */
  busTopicBytes: 1024,
  /** The payload of a message. */
  busPayloadBytes: 2 ** 20,
  /** Messages of a session kept for replay. The newest message is always kept. */
  busKeptMessages: 1000,
  /** The payloads of all messages of a session that are kept for replay. */
  busKeptBytes: 16 * 2 ** 20,
  /** Subscriptions of a session. */
  busSubscribers: 1000,
  /** Topics of one subscription. Patterns have a separate bound of the same number. */
  busTopics: 256,
  /**
   * Characters in all distinct patterns of a session's subscriptions. Each of them may be compared with each
   * character of a topic.
   */
  busPatternSize: 16_384,
  /** Messages that wait for one subscriber. */
  busWaitingMessages: 10_000,
  /** The payloads of all messages that wait for one subscriber. */
  busWaitingBytes: 2 * 2 ** 20,
  /** Payloads up to this size are copied for a subscriber on delivery, larger ones when they are read. */
  busCopiedBytes: 16 * 1024,
  /** Characters of patterns times characters of a topic that are matched in one turn of the event loop. */
  busMatchesPerTurn: 2 ** 18,
  /** Messages times subscribers that are handed over in one turn of the event loop. */
  busDeliveriesPerTurn: 10_000,
  /** Bytes of messages that are delivered in one turn of the event loop. */
  busBytesPerTurn: 8 * 2 ** 20,
  /** A test report. */
  reportBytes: 16 * 2 ** 20,
  /** Test reports kept for a session. Older ones are deleted. */
  healthReports: 1000,
  /** The name of a secret. */
  secretNameBytes: 128,
  /** The value of a secret. */
  secretValueBytes: 64 * 1024,
  /** Secrets of a session. */
  secrets: 1000,
  /** Secrets in each commit of a key rotation. */
  secretsPerCommit: 32,
  /** The id of a master key. */
  masterKeyIdBytes: 128,
  /** A file is cut into blocks of this size. No blob is larger than a block. */
  blockBytes: 1 << 20,
  /** Blocks in one chunk of the body of a file. */
  blocksPerChunk: 1024,
  /** A write that would give a block more extents than this rewrites the block as one blob. */
  extentsPerBlock: 512,
  /** A write of a whole file of at least this size stores only the parts that the old content lacks. */
  sharedFileBytes: 64 * 1024,
  /** A file that consists of more parts of blobs than this is stored whole by its next write. */
  sharedFileExtents: 64,
  /** Bytes of an old and a new content that are compared first. A block is a multiple of it. */
  firstComparedBytes: 4 * 1024,
  /** Bytes of them that are compared in each later step. A block is a multiple of it. */
  comparedBytes: 64 * 1024,
  /** Bytes hashed in one turn of the event loop; a multiple of `blockBytes`. */
  hashedBytesPerTurn: 4 * 2 ** 20,
  /** Content up to this size is copied, so that it does not keep a larger buffer around it in memory. */
  copiedBytes: 8 * 1024,
  /** Memory that copies of small blobs share. */
  slabBytes: 32 * 1024,
  /** A copy of a blob above this has memory of its own. */
  slabShareBytes: 8 * 1024,
  /** A chunk of a segment write from this size on is a blob of its own. */
  ownBlobBytes: 64 * 1024,
  /** Remembered hashes of contents that consist of several blobs. More than the operations of a batch. */
  rememberedHashes: 16_384,
  /** The most bytes that one read returns, as in Node. */
  readBytes: 2 ** 31 - 1,
  /** A buffer that a read of `session.fs` allocates itself, as in Node. */
  readBufferBytes: 16 * 1024,
  /** A chunk of a read stream of `session.fs`, by default, as in Node. */
  streamReadBytes: 64 * 1024,
  /** Writes of a stream that may write nothing, one after the other, as in Node. */
  emptyWrites: 5,
  /** Events that wait for the reader of `fs.promises.watch`, by default, as in Node. */
  watchQueue: 2048,
  /** The pause after which `session.watch` yields a batch, by default. */
  watchDebounceMs: 50,
  /** The longest time that `session.watch` gathers changes for a batch. */
  watchBatchMs: 5000,
  /** Paths in a batch of `session.watch`. */
  watchChanges: 1000,
  /** A body with more extents than this is stored as a separate node. */
  inlineExtents: 64,
  /** The most names in a page. A run of names without a canonical page end is cut at this position. */
  namesPerPage: 1024,
  /** Work on a frozen tree yields to the event loop after this many milliseconds. */
  sliceMs: 8,
  /** Turns of the event loop from one slice of waiting work to the next. */
  turnsPerSlice: 8,
  /** A file from this size on is hashed in a step of its own. */
  ownStepBytes: 16 * 1024,
  /** Keys of a listing between two looks at the clock. */
  visitsPerLook: 64,
  /** Paths of a tree that are found in one step. */
  pathsPerStep: 64,
  /** Items that are sorted, or merged into a sorted list, between two looks at the clock. */
  sortedAtOnce: 1024,
  /** Steps of `fs.cp` in one event. */
  copyStepsPerEvent: 1000,
  /**
   * Steps of a batch or patch that are planned in one turn of the event loop. More are planned in several turns. A segment
   * write counts once for each chunk, and at least once.
   */
  stepsPerTurn: 1000,
  /** Blocks with many extents that a patch rewrites in one turn of the event loop. More are rewritten in several turns. */
  blocksRewrittenAtOnce: 16,
  /** Effects of events that are replayed or hashed in one turn of the event loop. */
  effectsPerTurn: 1000,
  /** Characters of the stored text of an event that are parsed in one turn of the event loop. */
  parsedPerTurn: 2 ** 19,
  /** Places at which a cut of such a text is tried. If none of them is right, it is parsed as a whole. */
  eventCuts: 8,
  /** Items of a caller's iterable that are taken in one turn of the event loop, if each comes at once. */
  itemsPerTurn: 64,
  /** Times in each window that the rate of a transfer is looked at. */
  looksPerWindow: 4,
  /** Bytes of one call of `String.fromCharCode`, which takes each as an argument. */
  base64SliceBytes: 8192,
  /** Random words of 32 bits that are drawn at once for ids. */
  randomWords: 1024,
  /** The least time between two updates of a session's stored last read, in milliseconds. */
  activityStoredMs: 60_000,
  /** Stored times of a last read that are read at once. */
  activityReadsAtOnce: 64,
  /** If the clock lags the newest event of a session by at most this many milliseconds, new events repeat its time. */
  clockHoldMs: 300_000,
  /** Jumps of the wall clock by up to this many milliseconds may change the time to live of a lock or cache entry. */
  smallJumpMs: 1000,
  /**
   * The latest time of a clock, in milliseconds since 1970: the end of the year 9999, because the form of RFC 3339 has
   * four digits for a year.
   */
  latestTimeMs: 253_402_300_799_999,
  /**
   * The largest time in an id that the clock gives, in parts of 1/32 millisecond since 1970; in the year 2510. A clock that
   * is ahead of it is wrong, and must not use up the times of later ids.
   */
  idTicks: 2 ** 49 - 2 ** 44,
  /** Recorded times at which the clock of a session was set back. */
  clockSetBacks: 100,
  /**
   * How long an engine waits before it deletes a session that had expired when the engine was opened, in
   * milliseconds. A shorter time to live of the session shortens the wait.
   */
  expirySecondLookMs: 600_000,
  /** Sessions with times to live whose last use is remembered in memory. */
  lastUses: 100_000,
  /** Milliseconds until a further use makes a session's last use the newest one again. The oldest are forgotten first. */
  lastUsesMoveMs: 1000,
  /** Jumps of the wall clock that are remembered in memory. A clock that runs too fast jumps each time it is a second ahead. */
  clockSpans: 1000,
  /** Events between two snapshots of a session on a durable store, if its snapshots are small. */
  eventsPerSnapshot: 2000,
  /**
   * Size of a snapshot, in characters of its nodes, for which the session has one event more between two snapshots. The
   * replay of an event takes about as long as storing three times as much.
   */
  snapshotSizePerEvent: 512,
  /** The most events between two snapshots of a session, however large they are. */
  eventsPerSnapshotMax: 16_000,
  /** Roots of checkpoints kept in memory per session. Replay finds older ones again. */
  pinnedRoots: 4096,
  /**
   * Default of `memoryHistoryBytes`: the changes that are kept without a durable store, so that earlier states can be
   * read and restored. The count is approximate.
   */
  memoryHistoryBytes: 64 * 2 ** 20,
  /** Events between two kept roots of that history. A read of a state replays at most as many. */
  historyRootEvents: 1000,
  /** Effects between two kept roots of that history. */
  historyRootEffects: 1000,
  /** The changes between two kept roots take at most `memoryHistoryBytes` divided by this. */
  historyRootShare: 16,
  /** Ended items of that history at which they are first removed. */
  historyEndedItems: 1024,
  /** Changes, or groups of changes, that one undo or redo covers at most. */
  undoCount: 10_000,
  /** Paths that a preview of an undo, redo or restore lists. */
  previewChanges: 10_000,
  /** The paths that a preview, a merge or a page of changes lists, as JSON. */
  listedPathBytes: 8 * 2 ** 20,
  /** Paths of one partial restore. */
  restorePaths: 1000,
  /** Checkpoints of one session that git clients can fetch, the newest ones. */
  servedCheckpoints: 1000,
  /** Effects of one partial restore or push, with the pieces of contents. */
  restoreEffects: 100_000,
  /** Events whose states are computed together, for the history of a path. */
  historyWindowEvents: 256,
  /** States before a window that a restore in it leads to, kept in memory. */
  historyHeldStates: 16,
  /** Events that one page of the history of a path looks at. A page that needs more ends early. */
  pathHistoryEvents: 4096,
  /** Events that a blame looks at. Lines from before them have no event. */
  blameEvents: 100_000,
  /** The size of a file, in bytes, whose lines a blame attributes. */
  blameBytes: 16 * 2 ** 20,
  /** Events that a walk through the history reads at once. */
  eventsPerWalk: 128,
  /** Pins at which those of freed owners are first looked for. */
  pinsPerSweep: 1024,
  /**
   * Default of `memoryBudgetBytes`: the cache of stored data, with a durable store. A quarter is for blobs, a
   * half for tree nodes, and a quarter for sessions. All counts are approximate.
   */
  memoryBudgetBytes: 128 * 2 ** 20,
  /** The smallest allowed `memoryBudgetBytes`. */
  memoryBudgetMinBytes: 2 ** 20,
  /**
   * A session's earlier states may take the memory for sessions divided by this. The newest state of an idle
   * session may take as much again.
   */
  sessionShare: 8,
  /** The smallest number of commits and openings between two measurements of the sessions in memory. */
  sessionsLookedAt: 64,
  /** An eviction stores no snapshot if reopening the session replays at most this many events. */
  eventsWithoutSnapshot: 64,
  /** The first pause after a failed recovery of the store, in milliseconds. It doubles with each failure. */
  recoveryPauseMs: 50,
  /** The longest pause after a failed recovery of the store, in milliseconds. */
  recoveryPauseMaxMs: 1000,
  /** A stored blob above this size is not kept in memory. */
  cachedBlobBytes: 64 * 1024,
  /** The bytes of a caller that a call copies at once. Above, it copies them in turns of the event loop. */
  copiedAtOnceBytes: 8 * 2 ** 20,
  /** Blob bytes gathered into one storage commit during an import. */
  importCommitBytes: 4 * 2 ** 20,
  /** Contents and records gathered into one storage commit during an import. */
  recordsPerCommit: 4096,
  /** Raw git trees and commits that an import keeps in memory. */
  gitObjectBytes: 64 * 2 ** 20,
  /** Known commits of a remote that a fetch announces. */
  knownCommits: 8,
  /** Commits pushed to a remote that a rebase onto a later revision of it recognizes. */
  pushedCommits: 100,
  /** Commits of a session on one branch among which a rebase looks for one that the new revision builds on. */
  ownCommits: 1000,
  /** The approximate size of the blocks into which a bundle cuts texts of records and lists of trees. */
  bundlePieceBytes: 256 * 1024,
  /** The largest block of a bundle that is not a blob. */
  bundleNodeBytes: 4 * 2 ** 20,
  /** A record of a bundle, such as an event. */
  bundleLineBytes: 16 * 2 ** 20,
  /** Blocks of trees in a bundle. */
  bundleNodes: 2 ** 20,
  /** Blocks of contents in a bundle. */
  bundleBlobs: 2 ** 22,
  /** Checkpoints in a bundle. */
  bundleCheckpoints: 100_000,
  /** Hard-linked files in one state of a bundle. */
  bundleLinkedFiles: 2 ** 18,
  /**
   * Roots of states that an export keeps between its two passes. It computes further roots once in each pass.
   */
  bundleHeldStates: 256,
  /** Extents of a file that can be listed, and of all files in a page of a manifest, which ends early. */
  casExtents: 500_000,
  /** Bytes of contents hashed for one page of a manifest. A page that needs more ends early. */
  manifestHashBytes: 2 ** 30,
  /** Lines in the index of a checked-out directory that are held in memory. */
  checkoutLines: 50_000,
  /** Lines in the index of a checked-out directory in one stored record. */
  checkoutLinesPerText: 4096,
  /** Paths that one sync of a checked-out directory may change. */
  checkoutChanges: 100_000,
  /** Files that a checkout writes at once. */
  checkoutWritesAtOnce: 8,
  /** Interrupted checkouts in a row whose states are remembered. */
  checkoutInterruptions: 16,
  /** Patterns that a caller passes to one checkout. */
  ignorePatterns: 1000,
  /** Bytes of the ignore rules that apply to one path of a checked-out directory, and of a caller's patterns. */
  ignoreBytes: 256 * 1024,
  /** Bytes of ignore rules of all directories that are held in memory, together with one file more. */
  ignoreHeldBytes: 2 ** 20,
  /** Ignore rules that are compared between two looks at the clock. */
  ignoreComparisons: 64,
  /** Directories whose ignore rules are held in memory. */
  ignoreDirectories: 10_000,
  /** The time of a command without `timeoutMs`. */
  execMs: 10 * 60 * 1000,
  /** The longest time of a command. */
  execMostMs: 24 * 60 * 60 * 1000,
  /** Bytes that are kept of each output of a command without `maxOutputBytes`. */
  execOutputBytes: 2 ** 20,
  /** The most bytes that are kept of each output of a command. */
  execMostOutputBytes: 64 * 2 ** 20,
  /** The standard input of a command, in bytes. */
  execInputBytes: 64 * 2 ** 20,
  /** Arguments of a command. */
  execArguments: 10_000,
  /** Variables of the environment of a command. */
  execVariables: 1000,
  /** Bytes of one argument or variable of a command. */
  execArgumentBytes: 128 * 1024,
  /** Directories with the files of conflicting commands of one session. */
  execConflicts: 100,
  /** Shared directories in one checkout. */
  sharedDirectories: 64,
  /** Records read from storage at once, if a filter may skip many of them. */
  recordsPerScan: 256,
  /** Ids in the index of tags, one for each tag of a session. */
  taggedSessions: 1_000_000,
  /** The approximate memory of one such id, in bytes. */
  taggedSessionBytes: 100,
  /** Records that a scan of all records reads first. Its further pages have about `scannedBytes`. */
  scannedAtFirst: 64,
  /** Approximate bytes of records read from storage at once. */
  scannedBytes: 2 ** 20,
  /** The approximate number of effects of events read from storage at once. */
  effectsPerRead: 10_000,
  /** The most digests of an exact set, which takes about 4 MiB. A larger set is a Bloom filter. */
  exactDigests: 2 ** 17,
  /** The size of the Bloom filter that notes writes whose references are not stored yet. */
  recentWritesBytes: 4 * 2 ** 20,
  /** A collection uses `memoryBudgetBytes` divided by this for its marks, within the two bounds below. */
  markShare: 8,
  /** The least memory for the marks of a collection. */
  markMinBytes: 4 * 2 ** 20,
  /** The most memory for the marks of a collection. */
  markMaxBytes: 2 ** 29,
  /** Default of `automaticCollection.garbageBytes`. */
  garbageBytes: 64 * 2 ** 20,
  /** The smallest allowed `automaticCollection.garbageBytes`. */
  garbageMinBytes: 64 * 1024,
  /** The store's size is read each time that `garbageBytes` divided by this was committed. */
  looksPerCollection: 8,
  /** The first pause after a failed automatic collection, in milliseconds. It doubles with each failure. */
  collectionPauseMs: 1000,
  /** The longest pause after a failed automatic collection, in milliseconds. */
  collectionPauseMaxMs: 600_000,
  /** Sessions that a collection prunes or deletes at once. */
  sessionsPerPrune: 1024,
  /** Sessions that a collection processes at once, because each wait is long on a busy event loop. */
  collectedAtOnce: 32,
  /** Events that marking reads at once, over all sessions. */
  markedEvents: 512,
  /** Nodes that marking reads at once, from a store that reads asynchronously. */
  markReadsAtOnce: 16,
  /** Events that the search for kept redo reads first. */
  prunedAtFirst: 16,
  /** The most records of a ledger that are merged into one. */
  recordsPerCompaction: 16_384,
  /** Contents in a record of a ledger that several commits share. Each of them stores the record again. */
  blobsPerSharedRecord: 8,
  /** Contents in one merged record of a ledger. */
  blobsPerLedgerRecord: 4096,
  /** Fewer commits of a ledger are not merged, unless some of their contents were deleted. */
  commitsPerCompaction: 64,
  /** Events read from storage at once. */
  eventsPerRead: 1000,
  /** First bytes of a file that decide whether it is binary. As in git. */
  binaryCheckBytes: 8000,
  /** A line that occurs this often on the other side counts as frequent in every diff. As in git. */
  frequentLineCount: 1024,
  /** Lines on each side of a frequent line that decide whether it is compared. As in git. */
  frequentLineWindow: 100,
  /** Edits after which a diff of two short texts takes the best path found so far. As in git. */
  diffEditsAtLeast: 256,
  /** The least edits of the same kind, when a diff has used most of its steps. */
  diffEditsAtEnd: 16,
  /** Edits after which a diff looks for a path that is good enough. As in git. */
  diffEditsBeforeSampling: 256,
  /** Equal lines in a row that show a good path. As in git. */
  diffLongRun: 20,
  /** Lines for each edit that make a path good enough. As in git. */
  diffSampleGain: 4,
  /** Steps of one diff of lines. A diff that needs more shows the rest as replaced. */
  diffSteps: 2 ** 24,
  /** Lines between two conflicts of a merged text that join them into one. As in git. */
  linesBetweenConflicts: 3,
  /** Characters of a marker around a conflict. As in git. */
  conflictMarkerLength: 7,
  /** Globs that select the files of a diff. */
  diffGlobs: 100,
  /** Unchanged lines around a change in a diff, by default. */
  diffContextDefault: 3,
  /** Unchanged lines around a change in a diff. */
  diffContextMax: 1000,
  /** A file whose content a diff compares. Of larger files, a diff says only that they differ. */
  diffFileBytes: 8 * 2 ** 20,
  /**
   * Lines of a file that a diff, a merge or a blame compares. A patch has files with more lines in the form of binary files,
   * and in a merge they conflict as a whole.
   */
  diffFileLines: 500_000,
  /** All contents that one reading of a diff compares. Further files count as truncated. */
  diffBytes: 2 ** 30,
  /** Removed files, or added files, among which a diff finds renamed files. */
  diffRenames: 100_000,
  /** Removed files, or added files, among which a diff finds similar files. */
  diffSimilarFiles: 400,
  /** Contents of all files among which a diff finds similar files. */
  diffSimilarBytes: 32 * 2 ** 20,
  /** Contents that one page of changed files compares. The page ends with the file that exceeds it. */
  diffPageBytes: 4 * 2 ** 20,
  /** Effects of commits that a memory store acknowledges between two turns of the event loop. */
  acknowledgementsPerTurn: 64,
  /** Sessions whose ancestry a merge reads. Beyond them, only their base is known. */
  mergeSessions: 10_000,
  /** Common ancestors that a merge combines into one base. */
  mergeBases: 16,
  /** How deep the ancestors of these ancestors count. */
  mergeBaseDepth: 16,
  /** Paths that the two sides of a merge may have changed together. */
  mergePaths: 1_000_000,
  /** How often a merge starts again because a conflict would lose a file that one side moved. */
  mergePasses: 32,
  /** Unresolved conflicts of one merge. */
  mergeConflicts: 2000,
  /** Bytes of the versions of one file that a merge compares by lines. A larger file conflicts as a whole. */
  mergeFileBytes: 64 * 2 ** 20,
  /** Bytes of merged contents of one merge. Further files that both sides changed conflict as a whole. */
  mergeTextBytes: 256 * 2 ** 20,
  /** Changed paths that a merge returns. */
  mergeListedPaths: 10_000,
  /** Policies, and mergers, of one merge. */
  mergeRules: 1000,
  /** A draft that nothing ended is deleted after this long without use. */
  draftTtlSeconds: 3600,
  /** How often a merge is computed again because the target changed meanwhile. */
  mergeAttempts: 16,
} as const
