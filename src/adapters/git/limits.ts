/** Every bound of the git adapter stands here. Sizes are bytes unless the name says otherwise. */
export const gitLimits = {
  /** A pack as it is sent, and the objects in it when inflated. */
  packBytes: 2 * 2 ** 30,
  inflatedBytes: 4 * 2 ** 30,
  objectBytes: 2 ** 30,
  objects: 5_000_000,
  /** Native git makes no longer chains of deltas. */
  deltaDepth: 4095,
  /** Tree entries that an import visits, and the file bytes that it writes. */
  entries: 5_000_000,
  contentBytes: 4 * 2 ** 30,
  tagDepth: 16,
  refsBytes: 256 * 2 ** 20,
  errorBodyBytes: 64 * 1024,
  remoteMessageChars: 4096,
  branchNameBytes: 1024,
  redirects: 5,
  idleTimeoutMs: 60_000,
  /** Raw objects gathered into one `put`. */
  putObjects: 1000,
  putBytes: 4 * 2 ** 20,
  /** The object reader keeps what it inflated; it starts anew after this many bytes. */
  readCacheBytes: 256 * 2 ** 20,
  /** A body above this is compressed off the main thread. */
  asyncDeflateBytes: 256 * 1024,
  /** A push to a repository on this host writes up to this many objects one by one, more as a pack. */
  looseObjects: 100,
  /** How long a foreign lock on a ref is waited for. */
  lockWaitMs: 1000,
} as const
