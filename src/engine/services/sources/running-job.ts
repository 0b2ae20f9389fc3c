import type { EngineError } from '../../base/errors.js'
import type { ImportJob } from '../../records/import-job.js'
import type { Head } from '../../session/sharing/head.js'

/** A job that this engine runs. */
export interface RunningJob {
  readonly tenantKey: string
  /** Present if other engines may end the job. */
  readonly head: Head | undefined
  job: ImportJob
  readonly abort: AbortController
  /** The number of calls that share the job and have not aborted. */
  holders: number
  /** Functions that stop listening to the signals of these calls. */
  readonly releases: (() => void)[]
  done: Promise<void>
  cause: unknown
  /** The error with which the engine itself ended the job. */
  overdue: EngineError | undefined
}

/** Adds a call that shares the job. The job is aborted when all of its calls have aborted. */
export function hold(running: RunningJob, signal: AbortSignal | undefined): void {
  running.holders++
  if (signal === undefined) return
  const follow = (): void => {
    if (--running.holders === 0) running.abort.abort(signal.reason)
  }
  signal.addEventListener('abort', follow, { once: true })
  running.releases.push(() => signal.removeEventListener('abort', follow))
}
