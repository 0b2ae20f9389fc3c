import { withSignals } from '../../base/abort.js'
import { EngineError } from '../../base/errors.js'

/**
 * Runs work with a signal that aborts after `deadlineMs`, or with one of `signals`.
 *
 * @throws {EngineError} DEADLINE_EXCEEDED when the work took too long.
 */
export async function withinDeadline<T>(
  { deadlineMs, what }: { readonly deadlineMs: number; readonly what: string },
  signals: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const overdue = new AbortController()
  const late = new EngineError(
    'DEADLINE_EXCEEDED',
    `the ${what} took over ${deadlineMs / 1000} seconds; the option imports.deadlineSeconds allows more`,
  )
  const deadline = setTimeout(() => overdue.abort(late), deadlineMs)
  deadline.unref()
  try {
    return await withSignals([...signals, overdue.signal], work)
  } finally {
    clearTimeout(deadline)
  }
}
