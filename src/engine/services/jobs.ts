import { createEmitter } from '../base/emitter.js'
import { formatTime } from '../base/environment.js'
import { EngineError, errorRegistry } from '../base/errors.js'
import { isId } from '../base/ids.js'
import { checkRequest, shown } from '../base/input.js'
import { limits } from '../base/limits.js'
import type { Core } from '../session/core.js'
import { keys, prefixEnd } from '../storage/keys.js'
import type { StoreCommit } from '../storage/store.js'
import { ImportJobState, type ImportJob } from './source-records.js'

/** What identifies a job; a job itself does. */
export interface JobReference {
  readonly sourceId: string
  readonly jobId: string
}

export interface JobProgress {
  readonly bytesProcessed: number
  readonly filesProcessed: number
}

export interface WaitOptions {
  /** Ends the waiting, not the job. */
  readonly signal?: AbortSignal
  readonly onProgress?: (job: ImportJob) => void
}

/** What a job hands over when it is done: stored together with its success. */
export interface JobResult {
  readonly revisionId: string
  readonly put: NonNullable<StoreCommit['put']>
}

interface RunningJob {
  readonly tenantKey: string
  job: ImportJob
  readonly abort: AbortController
  done: Promise<void>
  cause: unknown
}

/** Import jobs: queued, running, then succeeded or failed, each step stored. */
export class Jobs {
  readonly #running = new Map<string, RunningJob>()
  readonly #events = createEmitter<Record<string, ImportJob>>()

  /** Fails the jobs that an earlier process left unfinished. To be called once, at opening. */
  async failInterrupted(core: Core): Promise<void> {
    const prefix = keys.unfinishedJobs()
    for (;;) {
      const found = await core.store.scan({
        gte: prefix,
        lt: prefixEnd(prefix),
        limit: limits.pageSizeDefault,
      })
      for (const [unfinishedKey, jobKey] of found) {
        const json = await core.store.get(jobKey)
        const put: [string, object][] = []
        if (json !== undefined)
          put.push([jobKey, failed(core, JSON.parse(json) as ImportJob, 'INTERRUPTED', 'the process ended')])
        await core.store.commit({ put, del: [unfinishedKey] })
        core.log('warn', 'a job of an earlier process was interrupted')
      }
      if (found.length < limits.pageSizeDefault) return
    }
  }

  /** Resolves to the queued job once it is stored; the work goes on. */
  async start(
    core: Core,
    sourceId: string,
    signal: AbortSignal | undefined,
    work: (context: {
      signal: AbortSignal
      onProgress: (progress: JobProgress) => void
      onStart: () => Promise<void>
    }) => Promise<JobResult>,
  ): Promise<ImportJob> {
    signal?.throwIfAborted()
    const job: ImportJob = {
      jobId: core.ids.newId(),
      sourceId,
      state: ImportJobState.QUEUED,
      revisionId: '',
      createdAt: nowOf(core),
      startedAt: '',
      completedAt: '',
      errorCode: '',
      errorMessage: '',
      bytesProcessed: 0,
      filesProcessed: 0,
    }
    const [jobKey, unfinishedKey] = keysOf(core, job)
    await core.store.commit({
      put: [
        [jobKey, job],
        [unfinishedKey, jobKey],
      ],
    })
    const abort = new AbortController()
    const follow = (): void => abort.abort(signal!.reason)
    if (signal?.aborted === true) follow()
    signal?.addEventListener('abort', follow, { once: true })
    const running: RunningJob = {
      tenantKey: core.tenantKey,
      job,
      abort,
      done: Promise.resolve(),
      cause: undefined,
    }
    this.#running.set(job.jobId, running)
    running.done = this.#run(core, running, work).finally(() => {
      signal?.removeEventListener('abort', follow)
      this.#running.delete(job.jobId)
    })
    return job
  }

  async get(core: Core, reference: JobReference): Promise<ImportJob> {
    checkRequest(reference, 'job')
    const { sourceId, jobId } = reference
    if (!isId(sourceId) || !isId(jobId)) throw jobNotFound(reference)
    const running = this.#find(core, reference)
    if (running !== undefined) return running.job
    const json = await core.store.get(keys.job(core.tenantKey, sourceId, jobId))
    if (json === undefined) throw jobNotFound(reference)
    return JSON.parse(json) as ImportJob
  }

  /** Resolves to the succeeded job; rejects with IMPORT_FAILED, whose cause is what went wrong. */
  async wait(core: Core, reference: JobReference, options: WaitOptions = {}): Promise<ImportJob> {
    checkRequest(reference, 'job')
    checkRequest(options, 'options')
    const { signal, onProgress } = options
    signal?.throwIfAborted()
    const running = this.#find(core, reference)
    if (running !== undefined) await this.#follow(running, signal, onProgress)
    const job = await this.get(core, reference)
    if (job.state === ImportJobState.SUCCEEDED) return job
    const { jobId, sourceId, errorCode, errorMessage } = job
    const message = errorMessage || 'the job has not ended'
    throw new EngineError('IMPORT_FAILED', message, { jobId, sourceId, errorCode }, { cause: running?.cause })
  }

  #find({ tenantKey }: Core, { sourceId, jobId }: JobReference): RunningJob | undefined {
    const running = this.#running.get(jobId)
    return running?.tenantKey === tenantKey && running.job.sourceId === sourceId ? running : undefined
  }

  /** Waits for the end; a signal, or a listener that throws, ends this waiting and not the job. */
  #follow(
    running: RunningJob,
    signal: AbortSignal | undefined,
    onProgress: WaitOptions['onProgress'],
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const { jobId } = running.job
      const listen = (job: ImportJob): void => {
        try {
          onProgress?.(job)
        } catch (error) {
          end(() => reject(error))
        }
      }
      const abort = (): void => end(() => reject(signal!.reason))
      const end = (settle: () => void): void => {
        this.#events.off(jobId, listen)
        signal?.removeEventListener('abort', abort)
        settle()
      }
      this.#events.on(jobId, listen)
      signal?.addEventListener('abort', abort, { once: true })
      running.done.then(
        () => end(resolve),
        (error: unknown) => end(() => reject(error)),
      )
    })
  }

  /** Aborts what runs and waits until it stopped. */
  async close(): Promise<void> {
    const reason = new EngineError('STORE_CLOSED', 'the engine was closed')
    const all = [...this.#running.values()]
    for (const { abort } of all) abort.abort(reason)
    await Promise.all(all.map(({ done }) => done))
  }

  async #run(core: Core, running: RunningJob, work: Parameters<Jobs['start']>[3]): Promise<void> {
    const [jobKey, unfinishedKey] = keysOf(core, running.job)
    const { signal } = running.abort
    const { sourceId, jobId } = running.job
    const reference = { sourceId, jobId }
    try {
      const { revisionId, put } = await work({
        signal,
        onProgress: (progress) => this.#update(running, progress),
        onStart: async () => {
          signal.throwIfAborted()
          this.#update(running, { state: ImportJobState.RUNNING, startedAt: nowOf(core) })
          await core.store.commit({ put: [[jobKey, running.job]] })
        },
      })
      signal.throwIfAborted()
      const succeeded = {
        ...running.job,
        state: ImportJobState.SUCCEEDED,
        revisionId,
        completedAt: nowOf(core),
      }
      await core.store.commit({ put: [...put, [jobKey, succeeded]], del: [unfinishedKey] })
      this.#update(running, succeeded)
      core.log('info', 'a job succeeded', { ...reference, filesProcessed: succeeded.filesProcessed })
    } catch (error) {
      running.cause = error
      const code = signal.aborted ? 'INTERRUPTED' : jobCodeOf(error)
      const message = error instanceof Error ? error.message : String(error)
      const ended = failed(core, running.job, code, message)
      // A store that fails here leaves the job unfinished; the next opening fails it as interrupted.
      await core.store.commit({ put: [[jobKey, ended]], del: [unfinishedKey] }).catch(() => false)
      this.#update(running, ended)
      core.log('warn', 'a job failed', { ...reference, errorCode: code })
    }
  }

  #update(running: RunningJob, change: Partial<ImportJob>): void {
    running.job = { ...running.job, ...change }
    this.#events.emit(running.job.jobId, running.job)
  }
}

function failed(core: Core, job: ImportJob, errorCode: string, errorMessage: string): ImportJob {
  return { ...job, state: ImportJobState.FAILED, errorCode, errorMessage, completedAt: nowOf(core) }
}

function keysOf(
  { tenantKey }: Core,
  { sourceId, jobId }: JobReference,
): [jobKey: string, unfinishedKey: string] {
  return [keys.job(tenantKey, sourceId, jobId), keys.unfinishedJob(tenantKey, sourceId, jobId)]
}

function nowOf(core: Core): string {
  return formatTime(core.environment.wallClockMs())
}

function jobCodeOf(error: unknown): string {
  return error instanceof EngineError ? (errorRegistry[error.reason].job ?? 'INTERNAL') : 'INTERNAL'
}

function jobNotFound({ sourceId, jobId }: JobReference): EngineError {
  return new EngineError('JOB_NOT_FOUND', 'no such job', { sourceId: shown(sourceId), jobId: shown(jobId) })
}
