/** The bounds of the filesystem and the sandbox for Mastra. */
export const limits = {
  /** Bytes of a file that `readFile` returns. */
  readBytes: 64 * 1024 * 1024,
  /** Bytes that a copy of a directory reads, over all of its files. */
  copiedBytes: 64 * 1024 * 1024,
  /** Entries of one directory. */
  directoryEntries: 10_000,
  /** Entries of one recursive listing. */
  walkedEntries: 100_000,
  /** Levels of directories of a recursive listing. */
  walkedLevels: 256,
  /** Matching lines of one page of a search. */
  matchesPerPage: 10_000,
  /** Matching lines of one search. */
  matches: 100_000,
  /** Lines of context around a match. */
  contextLines: 100,
  /** UTF-16 units of a line of a search. Longer lines are cut. */
  lineLength: 100_000,
  /** Files of one `writeFiles`. */
  writtenFiles: 10_000,
  /** The longest time of a command, in milliseconds: a timer of Node takes no longer one. */
  longestCommandMs: 2 ** 31 - 1,
} as const
