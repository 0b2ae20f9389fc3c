/** An event of interest to the embedder that no caller learns of. */
export interface LogEntry {
  /** `error`: something failed. `warn`: something needs attention. `info`: everything works. */
  readonly level: 'info' | 'warn' | 'error'
  /** A fixed sentence; `details` has the variable parts. */
  readonly message: string
  /** Ids, counts, reasons; never contents, secrets or paths of the host. */
  readonly details: Readonly<Record<string, string | number>>
}

export type Log = (level: LogEntry['level'], message: string, details?: LogEntry['details']) => void

/** Errors of the hook are its own: they must not end the work that it reports on. */
export function logTo(hook: ((entry: LogEntry) => void) | undefined): Log {
  if (hook === undefined) return () => undefined
  return (level, message, details = {}) => {
    try {
      hook({ level, message, details })
    } catch {
      // There is no further place to report to.
    }
  }
}
