import { checkSignal } from '../../base/abort.js'
import { EngineError, invalid } from '../../base/errors.js'
import { given, shown } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import type { ImportJob } from '../../records/import-job.js'

/** Identifies an import job. An {@link ImportJob} is also a reference to itself. */
export interface JobReference {
  /** The id of the source. */
  readonly sourceId: string
  /** The id of the job. */
  readonly jobId: string
}

const jobShape = new Shape<ImportJob>({
  jobId: true,
  sourceId: true,
  state: true,
  revisionId: true,
  createdAt: true,
  startedAt: true,
  completedAt: true,
  errorCode: true,
  errorMessage: true,
  bytesProcessed: true,
  filesProcessed: true,
  bytesTransferred: true,
})

/**
 * Returns a copy of a reference.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the reference is invalid
 */
export function parseJobReference(reference: JobReference): JobReference {
  const { sourceId, jobId } = jobShape.read(reference as ImportJob, 'job')
  return { sourceId, jobId }
}

/** Options of `engine.sources.waitForJob`. */
export interface WaitOptions {
  /** Ends the wait with the signal's reason. The job continues. */
  readonly signal?: AbortSignal
  /** Called with the job after each change. If it throws, the wait rejects with that error, and the job continues. */
  readonly onProgress?: (job: ImportJob) => void
}

/** Options of `engine.sources.watchJob`. */
export interface WatchOptions {
  /** Ends the loop with the signal's reason. The job continues. */
  readonly signal?: AbortSignal
}

const waitShape = new Shape<WaitOptions>({ signal: true, onProgress: true })

/**
 * Returns a checked copy of the options.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is invalid
 */
export function parseWait(options: WaitOptions): WaitOptions {
  const copy = waitShape.read(options, 'options')
  const { signal, onProgress } = copy
  checkSignal(signal)
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalid('onProgress', `must be a function; it is ${given(onProgress)}`)
  return copy
}

const watchShape = new Shape<WatchOptions>({ signal: true })

/**
 * Returns a checked copy of the options.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is invalid
 */
export function parseWatch(options: WatchOptions): WatchOptions {
  const copy = watchShape.read(options, 'options')
  checkSignal(copy.signal)
  return copy
}

export function jobNotFound({ sourceId, jobId }: JobReference): EngineError {
  return new EngineError('JOB_NOT_FOUND', `the source ${given(sourceId)} has no import job ${given(jobId)}`, {
    sourceId: shown(sourceId),
    jobId: shown(jobId),
  })
}
