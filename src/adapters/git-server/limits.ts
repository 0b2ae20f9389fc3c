/** Bounds of the server of git repositories. Sizes are in bytes. */
export const gitServerLimits = {
  /** A request to fetch, after decompression. It has the ids of commits, and no contents. */
  fetchRequestBytes: 8 * 2 ** 20,
  /** The commands of a push, before its pack. */
  commandBytes: 2 ** 20,
  /** Commits that one request asks for, and prefixes of refs. */
  wants: 4096,
  refPrefixes: 1024,
  /** Commits that a client has, or has without their parents. */
  haves: 65_536,
  /** Updates of refs in one push. */
  commands: 1024,
  /** Commits of one history that a request may walk over. */
  commits: 1_000_000,
  /** Bytes of a pack that are gathered into one piece of a response. */
  pieceBytes: 64 * 1024,
  /** Characters of an argument that an error repeats. */
  shownLength: 100,
} as const
