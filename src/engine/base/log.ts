import { attempt } from './attempt.js'

/** An event for the program that embeds the engine. Callers of operations are not informed of it. */
export interface LogEntry {
  /** `error`: something failed. `warn`: something needs attention. `info`: everything works. */
  readonly level: 'info' | 'warn' | 'error'
  /** A fixed sentence; `details` has the variable parts. */
  readonly message: string
  /** Ids, counts, reasons; never contents, secrets or paths of the host. */
  readonly details: Readonly<Record<string, string | number>>
}

export type Log = (level: LogEntry['level'], message: string, details?: LogEntry['details']) => void

/**
 * Makes a log from a hook. Errors of the hook are ignored, because they must not end the work that it reports
 * on.
 */
export function logTo(hook: ((entry: LogEntry) => void) | undefined): Log {
  if (hook === undefined) return () => undefined
  return (level, message, details = {}) => {
    attempt(() => hook({ level, message, details }))
  }
}
