/** Bounds of the server of git repositories. Sizes are in bytes. */
export const gitServerLimits = {
  /** A request to fetch, after decompression. It has the ids of commits, and no contents. */
  fetchRequestBytes: 8 * 2 ** 20,
  /**
   * A body that is sent with gzip may expand to `gunzipFreeBytes` plus `gunzipBytesPerByte` for each byte received so
   * far. Otherwise, the limits of a pack in proportion to its bytes would not hold.
   */
  gunzipFreeBytes: 2 ** 20,
  gunzipBytesPerByte: 16,
  /** The commands of a push, before its pack. */
  commandBytes: 2 ** 20,
  /** Commits that one request asks for, and prefixes of refs. */
  wants: 4096,
  refPrefixes: 8192,
  /** The name of the ref of a checkpoint, without its prefix. */
  checkpointNameBytes: 250,
  /** Commits that a client has, or has without their parents. */
  haves: 65_536,
  /** Updates of refs in one push. */
  commands: 1024,
  /** Commits of one history that a request may walk over. */
  commits: 1_000_000,
  /** Parents of all commits of one push. */
  parents: 2_000_000,
  /** A commit of a push, with its message. */
  commitBytes: 256 * 1024,
  /** Bytes of a pack that are gathered into one piece of a response. */
  pieceBytes: 64 * 1024,
  /** Characters of an argument that an error repeats. */
  shownLength: 100,
} as const
