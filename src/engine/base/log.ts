/** Something that the embedder may want to know and that no caller is told of. */
export interface LogEntry {
  readonly level: 'info' | 'warn' | 'error'
  /** A fixed sentence; what varies stands in `details`. */
  readonly message: string
  /** Ids, counts, reasons; never contents, secrets or paths of the host. */
  readonly details: Readonly<Record<string, string | number>>
}

export type Log = (level: LogEntry['level'], message: string, details?: LogEntry['details']) => void

/** What the hook throws is its own: it must not end what it is told of. */
export function logTo(hook: ((entry: LogEntry) => void) | undefined): Log {
  if (hook === undefined) return () => undefined
  return (level, message, details = {}) => {
    try {
      hook({ level, message, details })
    } catch {
      // Nobody is left to tell.
    }
  }
}
