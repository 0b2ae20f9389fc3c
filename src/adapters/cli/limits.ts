/** Limits of the command line. Sizes are in bytes, times in milliseconds. */
export const cliLimits = {
  /** How long a command waits for a store that another one has open, for example in a pipeline. */
  lockWaitMs: 2000,
  /** Time between two attempts to open such a store. */
  lockRetryMs: 50,
  /** How long running requests may take when the server closes. */
  drainMs: 3000,
  /**
   * How long closing the server may take in total. After the running requests, the engine gives commits that wait for a
   * remote ten seconds, so that it records each successful push.
   */
  closeMs: 15_000,
  /** Attributes of the entries of a directory that are requested at once. */
  statsAtOnce: 32,
  /** Characters of output that are written at once. */
  bufferedChars: 64 * 1024,
  /** Characters of the title of a progress bar. */
  titleLength: 40,
  /** Connections to the inspector at once. */
  inspectConnections: 256,
  /** Requests of one connection to the inspector that wait for their answers. More of them close the connection. */
  inspectRequests: 16,
  /** How long a client of the inspector may leave an answer unread, or take to send a request. */
  inspectStalledMs: 30_000,
  /** Time between two looks for connections to the inspector whose requests are late. */
  inspectCheckMs: 1000,
  /** Headers of a request to the inspector. */
  inspectHeaderBytes: 16 * 1024,
  /** Connections to the server of `mount` at once. */
  mountConnections: 256,
  /** Time between two timers that keep `watch` running. */
  watchMs: 60_000,
  /** Time between two attempts to unmount a directory that is in use. */
  unmountRetryMs: 500,
  /** The buffer of davfs2, in KiB. A kernel asks for up to 32 KiB of a directory. */
  davfsBufferKib: 64,
  /** Characters of the errors of a program that mounts. */
  mountErrorChars: 2000,
  /** Size of the file that `resolve --content` reads, in one piece. */
  resolvedBytes: 64 * 1024 * 1024,
  /** Sessions in the graph of `log --graph`. */
  graphSessions: 1000,
  /** Events of all sessions of that graph. */
  graphEvents: 100_000,
  /** Ids with the same beginning that an error lists. */
  shownIds: 20,
} as const
