import { pause } from '../../base/abort.js'
import { engineClosed, EngineError, messageOf } from '../../base/errors.js'
import { isId } from '../../base/ids.js'
import { limits } from '../../base/limits.js'
import { Transfer, type TransferLimits } from '../../base/transfer.js'
import type { TreeCounts } from '../../records/baseline.js'
import { ImportJobState, importJobKind, type ImportJob } from '../../records/import-job.js'
import { encodeRun } from '../../records/unfinished-job.js'
import type { Core } from '../../session/core.js'
import { Head } from '../../session/sharing/head.js'
import { Overtaken } from '../../session/sharing/shared-session.js'
import { readHead, readHeads } from '../../storage/heads.js'
import { keys } from '../../storage/keys.js'
import { lossCheck } from '../../storage/loss-check.js'
import { InterruptedJobs } from './interrupted-jobs.js'
import { listJobs, type JobListRequest, type JobPage } from './job-listing.js'
import { failed, hasEnded, jobCodeOf, keysOf, nowOf, type JobRecords } from './job-records.js'
import { jobNotFound, type JobReference, type WaitOptions, type WatchOptions } from './job-requests.js'
import { JobWatches } from './job-watches.js'
import { hold, type RunningJob } from './running-job.js'

/** The progress of reading a source. */
export interface JobProgress {
  /** Bytes of the files read so far. */
  readonly bytesProcessed: number
  /** Number of files and symlinks read so far. */
  readonly filesProcessed: number
  /** Bytes received from outside: the archive, bundle or pack, or the files read from a directory. */
  readonly bytesTransferred: number
}

/** The longest duration of a job, and the lowest speed of its source. */
export interface JobLimits extends TransferLimits {
  readonly deadlineMs: number
}

/** The result of a finished job. It is stored together with the job's success. */
export interface JobResult extends JobRecords {
  readonly revisionId: string
  /** The size of the whole revision. */
  readonly counts: TreeCounts
  /**
   * Stores the records in a commit that contains more than these. Absent: a commit with only these records.
   */
  readonly commit?: (records: JobRecords) => Promise<unknown>
  /** Makes the result again, because another engine has changed the source. */
  readonly again?: () => Promise<JobResult>
}

export interface JobContext {
  readonly jobId: string
  readonly signal: AbortSignal
  readonly transfer: Transfer
  readonly onProgress: (progress: JobProgress) => void
  /** After this call, no other call can share the job. */
  readonly onResolved: () => void
  /** Call this when the job's turn comes. */
  readonly onStart: () => Promise<void>
  /**
   * Stores the result together with the success of the job. Call this once, as the last step that can fail.
   */
  readonly onDone: (result: JobResult) => Promise<void>
}

export interface JobStart {
  readonly sourceId: string
  /** Requests with the same value may share one job. If absent, the job is not shared. */
  readonly share?: string
  /** Aborts the job, unless other calls share it that have not aborted. */
  readonly signal: AbortSignal | undefined
  readonly work: (context: JobContext) => Promise<void>
}

/** Jobs of sources. A job is queued, then running, then succeeded or failed. Each step is stored. */
export class Jobs {
  readonly #limits: JobLimits
  readonly #running = new Map<string, RunningJob>()
  /** The number of running jobs of each tenant, also of those that wait for their turn. */
  readonly #counts = new Map<string, number>()
  #closed = false
  readonly #shared = new Map<string, { readonly running: RunningJob; readonly queued: Promise<ImportJob> }>()
  readonly interrupted = new InterruptedJobs()
  readonly watches = new JobWatches()

  constructor(limits: JobLimits) {
    this.#limits = limits
  }

  /**
   * Resolves with the queued job when it is stored. The work continues.
   *
   * @throws {EngineError} QUOTA when the tenant has too many unfinished jobs
   */
  start(core: Core, { sourceId, share, signal, work }: JobStart): Promise<ImportJob> {
    if (this.#closed) throw engineClosed()
    signal?.throwIfAborted()
    const shareKey = share === undefined ? undefined : `${core.tenantKey}${sourceId}${share}`
    const shared = shareKey === undefined ? undefined : this.#shared.get(shareKey)
    if (shared !== undefined && !shared.running.abort.signal.aborted) {
      hold(shared.running, signal)
      return shared.queued
    }
    const leave = this.#enter(core.tenantKey)
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
      bytesTransferred: 0,
    }
    const running: RunningJob = {
      tenantKey: core.tenantKey,
      head: core.sharing && new Head(core.sharing, job.jobId, ''),
      job,
      abort: new AbortController(),
      holders: 0,
      releases: [],
      done: Promise.resolve(),
      cause: undefined,
      overdue: undefined,
    }
    hold(running, signal)
    const unshare = (): void => {
      if (shareKey !== undefined && this.#shared.get(shareKey)?.running === running)
        this.#shared.delete(shareKey)
    }
    const queued = this.#queue(core, running)
    this.#running.set(job.jobId, running)
    running.done = queued
      .then(
        () => {
          this.watches.queued(running)
          return this.#run(core, running, { work, onResolved: unshare })
        },
        // The caller gets the error. The job may have been stored nevertheless.
        (error: unknown) =>
          this.interrupted.keepEnd(core, failed(core, running.job, jobCodeOf(error), messageOf(error))),
      )
      .finally(() => {
        for (const release of running.releases) release()
        unshare()
        leave()
        this.#running.delete(job.jobId)
        // All waiting calls have been notified of the end.
        this.watches.forget(running)
      })
    if (shareKey !== undefined) this.#shared.set(shareKey, { running, queued })
    return queued
  }

  /** Counts a job of a tenant, until the returned function is called. */
  #enter(tenantKey: string): () => void {
    const count = (this.#counts.get(tenantKey) ?? 0) + 1
    if (count > limits.unfinishedJobs) {
      const limit = String(limits.unfinishedJobs)
      const message = `a tenant can have at most ${limit} unfinished imports: wait until some of them have ended`
      throw new EngineError('QUOTA', message, { limit })
    }
    this.#counts.set(tenantKey, count)
    return () => {
      const left = (this.#counts.get(tenantKey) ?? 0) - 1
      if (left > 0) this.#counts.set(tenantKey, left)
      else this.#counts.delete(tenantKey)
    }
  }

  async #queue(core: Core, { job, head }: RunningJob): Promise<ImportJob> {
    const [jobKey, unfinishedKey] = keysOf(core, job)
    await core.store.commit({
      put: [
        [jobKey, job],
        [unfinishedKey, encodeRun(jobKey, core.sharing?.engineId)],
      ],
      ...(head && { heads: [head.next()] }),
    })
    return job
  }

  async get(core: Core, reference: JobReference): Promise<ImportJob> {
    const { sourceId, jobId } = reference
    if (!isId(sourceId) || !isId(jobId)) throw jobNotFound(reference)
    const known = this.#known(core, reference)
    if (known !== undefined) return known
    const json = await core.store.get(keys.job(core.tenantKey, sourceId, jobId))
    if (json === undefined) throw jobNotFound(reference)
    return importJobKind.parse(json)
  }

  /** A page of the jobs of a source that exists, the newest first. */
  list(core: Core, request: JobListRequest): Promise<JobPage> {
    return listJobs(core, request, (stored) => this.#known(core, stored) ?? stored)
  }

  /** A job of this engine that runs, or whose end is not stored yet. */
  #known(core: Core, reference: JobReference): ImportJob | undefined {
    const running = this.#find(core, reference)
    if (running !== undefined) return running.job
    return this.interrupted.ended(core, reference)
  }

  /**
   * Waits for a job, and resolves with the succeeded job.
   *
   * @throws {EngineError} IMPORT_FAILED when the job failed; its cause is the original error
   */
  async wait(
    core: Core,
    reference: JobReference,
    { signal, onProgress }: WaitOptions = {},
  ): Promise<ImportJob> {
    signal?.throwIfAborted()
    const running = this.#find(core, reference)
    if (running !== undefined) await this.watches.follow(running, signal, onProgress)
    let job = running?.job ?? (await this.get(core, reference))
    if (running === undefined)
      for await (const later of this.#polled(core, job, signal)) {
        job = later
        onProgress?.(job)
      }
    if (job.state === ImportJobState.SUCCEEDED) return job
    const { jobId, sourceId, errorCode, errorMessage } = job
    const message = errorMessage || 'the job has not ended'
    throw new EngineError('IMPORT_FAILED', message, { jobId, sourceId, errorCode }, { cause: running?.cause })
  }

  /**
   * Yields the job now and after each change, the last time when it has ended. A slow reader misses steps in
   * between.
   */
  async *watch(
    core: Core,
    reference: JobReference,
    { signal }: WatchOptions,
  ): AsyncGenerator<ImportJob, void, undefined> {
    signal?.throwIfAborted()
    const running = this.#find(core, reference)
    if (running === undefined) {
      const job = await this.get(core, reference)
      yield job
      yield* this.#polled(core, job, signal)
      return
    }
    yield* this.watches.watch(running, signal)
  }

  /**
   * Ends a job, even a shared one, and resolves with the job when it has ended. A job that already ended does
   * not change.
   */
  async abort(core: Core, reference: JobReference): Promise<ImportJob> {
    const running = this.#find(core, reference)
    if (running !== undefined) {
      running.abort.abort(new EngineError('IMPORT_FAILED', 'the job was aborted'))
      await running.done
    } else if (core.sharing !== undefined && !hasEnded(await this.get(core, reference))) {
      await this.interrupted.abort(core, reference)
    }
    return this.get(core, reference)
  }

  /** Stops the work of jobs that another engine has ended. */
  async stopEnded(core: Core): Promise<void> {
    const { sharing } = core
    if (sharing === undefined || this.#running.size === 0) return
    const heads = await readHeads(core.store, [...this.#running.keys()])
    for (const [jobId, head] of heads)
      if (!sharing.isOwn(head)) this.#running.get(jobId)?.abort.abort(takenOver())
  }

  /** The later states of a job that another engine runs, on a shared store. */
  async *#polled(
    core: Core,
    first: ImportJob,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ImportJob, void, undefined> {
    if (core.sharing === undefined) return
    for (let job = first; !hasEnded(job);) {
      await pause(limits.sharedJobPollMs, signal)
      const next = await this.get(core, job)
      if (next.state === job.state) continue
      job = next
      yield job
    }
  }

  /** Ends all jobs of a source. */
  async abortAll({ tenantKey }: Core, sourceId: string): Promise<void> {
    const all = [...this.#running.values()].filter(
      (running) => running.tenantKey === tenantKey && running.job.sourceId === sourceId,
    )
    for (const { abort } of all) abort.abort(new EngineError('SOURCE_NOT_FOUND', 'the source was deleted'))
    await Promise.all(all.map(({ done }) => done))
  }

  #find({ tenantKey }: Core, { sourceId, jobId }: JobReference): RunningJob | undefined {
    const running = this.#running.get(jobId)
    return running?.tenantKey === tenantKey && running.job.sourceId === sourceId ? running : undefined
  }

  /** Aborts running jobs, and waits until they have stopped. No job starts after this call. */
  async close(): Promise<void> {
    this.#closed = true
    const all = [...this.#running.values()]
    for (const { abort } of all) abort.abort(engineClosed())
    await Promise.all(all.map(({ done }) => done))
  }

  async #run(
    core: Core,
    running: RunningJob,
    { work, onResolved }: Pick<JobStart, 'work'> & Pick<JobContext, 'onResolved'>,
  ): Promise<void> {
    const [jobKey, unfinishedKey] = keysOf(core, running.job)
    const { signal } = running.abort
    const { sourceId, jobId } = running.job
    const reference = { sourceId, jobId }
    using _ = core.pins.pin({ writesSince: 'now' })
    const checkLosses = lossCheck(core.store)
    const { deadlineMs } = this.#limits
    const end = (message: string): void => {
      running.overdue = new EngineError('DEADLINE_EXCEEDED', message)
      running.abort.abort(running.overdue)
    }
    const transfer = new Transfer(core.environment, this.#limits, (bytes) =>
      end(tooSlow(bytes, this.#limits)),
    )
    let deadline: ReturnType<typeof setTimeout> | undefined
    try {
      await core.store.counted?.()
      await work({
        jobId,
        signal,
        transfer,
        onResolved,
        // An adapter that was abandoned after an abort may still call this.
        onProgress: (progress) => signal.aborted || this.watches.update(running, progress),
        onStart: async () => {
          signal.throwIfAborted()
          deadline = setTimeout(
            () =>
              end(
                `the job took over ${deadlineMs / 1000} seconds; the option imports.deadlineSeconds allows more`,
              ),
            deadlineMs,
          )
          deadline.unref()
          this.watches.update(running, { state: ImportJobState.RUNNING, startedAt: nowOf(core) })
          const { head } = running
          const put = [[jobKey, running.job]] as const
          if (!(await core.store.commit(head === undefined ? { put } : { put, heads: [head.next()] })))
            throw stopped(running)
        },
        onDone: async (result) => {
          const succeeded = await this.#storeResult(core, running, result, checkLosses)
          this.watches.update(running, succeeded)
          core.log('info', 'a job succeeded', { ...reference, filesProcessed: succeeded.filesProcessed })
        },
      })
    } catch (error) {
      running.cause = error
      const code = signal.aborted && running.overdue === undefined ? 'INTERRUPTED' : jobCodeOf(error)
      const ended = failed(core, running.job, code, messageOf(error).slice(0, limits.errorMessageLength))
      // If the store fails here, the end is stored after its recovery. Otherwise the next opening fails the
      // job.
      const end = { put: [[jobKey, ended]] as const, del: [unfinishedKey] }
      const { head } = running
      await core.store
        .commit(head === undefined ? end : { ...end, heads: [head.next()] })
        .catch(() => this.interrupted.keepEnd(core, ended))
      this.watches.update(running, ended)
      core.log('warn', 'a job failed', { ...reference, errorCode: code })
    } finally {
      clearTimeout(deadline)
      transfer.close()
      // The end of a job also ends all remaining work of third parties for it.
      running.abort.abort(new EngineError('IMPORT_FAILED', 'the job has ended'))
    }
  }

  /** Stores the result of a job with its success. On a shared store, another engine may have changed the source. */
  async #storeResult(
    core: Core,
    running: RunningJob,
    first: JobResult,
    checkLosses: () => void,
  ): Promise<ImportJob> {
    const { abort, head } = running
    const [jobKey, unfinishedKey] = keysOf(core, running.job)
    let result = first
    for (let run = 1; ; run++) {
      abort.signal.throwIfAborted()
      checkLosses()
      const { revisionId, counts, put, del, commit } = result
      const state = ImportJobState.SUCCEEDED
      const whole = { filesProcessed: counts.files, bytesProcessed: counts.bytes }
      const succeeded = { ...running.job, ...whole, state, revisionId, completedAt: nowOf(core) }
      const records = { put: [...put, [jobKey, succeeded] as const], del: [...del, unfinishedKey] }
      if (head === undefined) {
        await (commit === undefined ? core.store.commit(records) : commit(records))
        return succeeded
      }
      const before = head.current
      const shared = { ...records, heads: [head.next(), ...(result.heads ?? [])] }
      const isStored = await (commit === undefined ? core.store.commit(shared) : storedBy(commit(shared)))
      if (isStored) return succeeded
      head.current = before
      if ((await readHead(core.store, running.job.jobId)) !== before) throw stopped(running)
      if (result.again === undefined || run === limits.sharedChangeRuns) throw takenOver()
      result = await result.again()
    }
  }
}

/** Whether a change of a session was stored. */
async function storedBy(change: Promise<unknown>): Promise<boolean> {
  try {
    await change
    return true
  } catch (error) {
    if (error instanceof Overtaken) return false
    throw error
  }
}

/**
 * The error of a job that another engine has ended, because the lease of this engine had expired, or whose source other
 * engines keep changing.
 */
export function takenOver(): EngineError {
  return new EngineError('IMPORT_FAILED', 'another engine ended the job, or kept changing its source')
}

/** Stops the work of a job that another engine has ended, so that the job counts as interrupted here too. */
function stopped({ abort }: RunningJob): EngineError {
  const error = takenOver()
  abort.abort(error)
  return error
}

function tooSlow(bytes: number, { minBytesPerSecond, windowMs }: JobLimits): string {
  return (
    `the source sends too slowly: ${bytes} bytes in ${windowMs / 1000} seconds of waiting; ` +
    `the option imports.minBytesPerSecond requires ${minBytesPerSecond} bytes a second`
  )
}
