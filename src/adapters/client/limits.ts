/** Limits of the client. Sizes are in bytes, times in milliseconds. */
export const clientLimits = {
  /** Nesting of one request that is copied. It is far above that of every operation. */
  requestDepth: 16,
  /** Properties and list items of one request that is copied. */
  requestParts: 1_000_000,
  /** Content that one request reads or writes, because a server limits its responses. A larger one is streamed. */
  pieceBytes: 8 * 2 ** 20,
  /** How often a file is read from the start if it changes during the read. */
  readings: 5,
  /** Entries of a directory in one request. */
  pageSize: 10_000,
  /** The longest time of a timer of JavaScript, about 24 days. A longer `timeoutMs` means no timeout. */
  longestTimerMs: 2 ** 31 - 1,
  /** Default of the option `reconnectMs`. */
  reconnectMs: 60_000,
  /** The first pause before a lost stream is opened again. It doubles with each failure. */
  reconnectPauseMs: 50,
  /** The longest pause before a lost stream is opened again. */
  reconnectPauseMaxMs: 5000,
  /** The pauses before a read is sent again whose connection failed, one for each attempt. */
  retryPauseMs: [100, 400],
  /** The first pause between two requests for the state of a job. It grows with each. */
  pollMs: 50,
  /** The longest pause between two requests for the state of a job. */
  pollMaxMs: 2000,
  /** The request that releases a lock after an aborted wait. */
  giveBackMs: 1000,
  /** Characters of a value that an error repeats. */
  shownLength: 64,
} as const
