/** The bounds of the backend for Deep Agents. */
export const limits = {
  /** Lines of a read that names no limit. The protocol sets this number. */
  defaultReadLines: 500,
  /** Lines of one read. The result says where the next one begins. */
  readLines: 10_000,
  /** UTF-16 units of a line that a read returns. Longer lines are cut, and say so. */
  lineLength: 100_000,
  /** Bytes of an image or another binary file that a read returns. The tool of Deep Agents takes no more. */
  binaryBytes: 10 * 1024 * 1024,
  /** Bytes of a file that `readRaw` returns. */
  rawBytes: 64 * 1024 * 1024,
  /** Entries of a directory, or paths of a glob. */
  listedPaths: 10_000,
  /** Matching lines of one grep. */
  matches: 10_000,
  /** Files of one upload or download. */
  files: 1000,
  /** Threads whose running turn is remembered. The oldest are forgotten. */
  threads: 10_000,
  /** UTF-16 units of the output of a command. The end is kept. */
  outputLength: 100_000,
} as const
