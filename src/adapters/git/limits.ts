/** Every bound of the git adapter stands here. Sizes are bytes unless the name says otherwise. */
export const gitLimits = {
  /** A pack as it is sent. */
  packBytes: 2 * 2 ** 30,
  objects: 5_000_000,
  objectBytes: 4 * 2 ** 30,
  /** A commit, a tag or a tree. */
  structureBytes: 64 * 2 ** 20,
  /**
   * All objects and deltas of a pack when inflated: in any case, and for what came in until then. Deflate alone
   * gives up to 1,032 bytes for one, and a delta of few bytes gives a whole file or tree again.
   */
  inflatedBytes: 16 * 2 ** 30,
  inflatedBytesFree: 128 * 2 ** 20,
  inflatedBytesPerByte: 512,
  /** Native git makes no longer chains of deltas. */
  deltaDepth: 4095,
  /**
   * The base of a delta, or a delta, in memory: in any case, which is where native git makes no deltas any
   * more, and for what came in until then.
   */
  deltaBytes: 512 * 2 ** 20,
  deltaBytesFree: 32 * 2 ** 20,
  deltaBytesPerByte: 16,
  /** Deltas of one pack that wait for a base that comes later. */
  heldDeltaBytes: 32 * 2 ** 20,
  /** Objects of a pack or repository that are kept because deltas may build on them. */
  baseCacheBytes: 32 * 2 ** 20,
  /** A blob above this is read in pieces, and everything above it is inflated off the main thread. */
  streamedBlobBytes: 4 * 2 ** 20,
  /** A piece of what is read in pieces. */
  pieceBytes: 256 * 1024,
  /** Files of a local repository: read in windows of this size, of which so many bytes are kept. */
  windowBytes: 128 * 1024,
  windowCacheBytes: 16 * 2 ** 20,
  openFiles: 64,
  /** A bundle, which is in memory while it is read, and its list of refs. */
  bundleBytes: 512 * 2 ** 20,
  bundleHeaderBytes: 16 * 2 ** 20,
  /** Tree entries that an import visits, and those of one directory. */
  entries: 5_000_000,
  directoryEntries: 500_000,
  /** Of these, entries of trees that it visited before: so many, and for each other entry so many. */
  repeatedEntries: 200_000,
  repeatsPerEntry: 16,
  /** Known commits that a remote is told of, newest first. */
  haves: 16,
  tagDepth: 16,
  /** Bytes that a remote may send besides a pack, such as its list of refs, and bytes of its report of a push. */
  refsBytes: 64 * 2 ** 20,
  reportBytes: 2 ** 20,
  /** Of a local repository: a file of settings or one ref, names of refs, packs, and object directories. */
  textBytes: 2 ** 20,
  refs: 1_000_000,
  refNameBytes: 4096,
  packs: 10_000,
  objectDirectories: 64,
  errorBodyBytes: 64 * 1024,
  remoteMessageChars: 4096,
  branchNameBytes: 1024,
  redirects: 5,
  idleTimeoutMs: 60_000,
  /** A body above this is compressed off the main thread. */
  asyncDeflateBytes: 256 * 1024,
  /** A push to a repository on this host writes up to this many objects one by one, more as a pack. */
  looseObjects: 100,
  /** How long a foreign lock on a ref is waited for. */
  lockWaitMs: 1000,
} as const
