/** Limits of the adapter for just-bash. */
export const justBashLimits = {
  /** The time of one command, by default. */
  timeoutMs: 60_000,
  /** What one command writes to its standard output and error together, by default. */
  outputBytes: 4 * 2 ** 20,
  /** The source of one command. */
  commandBytes: 2 ** 20,
  /** Symlinks on the way to a file, across the layers. */
  symlinkHops: 40,
  /** How long calls of the file system run before timers and signals get their turn. */
  sliceMs: 10,
} as const
