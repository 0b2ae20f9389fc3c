import { checkSignal, onAbort } from '../../base/abort.js'
import { createEmitter } from '../../base/emitter.js'
import { formatTime } from '../../base/environment.js'
import {
  engineClosed,
  EngineError,
  errorRegistry,
  invalid,
  messageOf,
  sharedStore,
} from '../../base/errors.js'
import { isId } from '../../base/ids.js'
import { Shape } from '../../base/shape.js'
import { given, shown } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Transfer, type TransferLimits } from '../../base/transfer.js'
import { inBackground, type Core } from '../../session/core.js'
import type { TreeCounts } from '../../records/baseline.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import type { StoreCommit } from '../../storage/store.js'
import { encodeRun, runOf } from '../../records/unfinished-job.js'
import { Head, headOf } from '../../session/sharing/head.js'
import { Overtaken } from '../../session/sharing/shared-session.js'
import { readHead } from '../../storage/heads.js'
import { ImportJobState, importJobKind, type ImportJob } from '../../records/import-job.js'
import { listJobs, type JobListRequest, type JobPage } from './job-listing.js'

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

/** The records that a commit puts and deletes. */
export interface JobRecords {
  readonly put: NonNullable<StoreCommit['put']>
  readonly del: NonNullable<StoreCommit['del']>
  /** The heads that the commit moves, on a shared store. */
  readonly heads?: StoreCommit['heads']
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

interface RunningJob {
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

/** Records to store together with the failure of a job. */
type FailureRecords = (tenantKey: string, job: ImportJob) => Promise<FailurePut>

/** Records of a failure, and the head of the source that they change. */
export interface FailurePut {
  readonly put: JobRecords['put']
  readonly heads?: StoreCommit['heads']
}

/** Jobs of sources. A job is queued, then running, then succeeded or failed. Each step is stored. */
export class Jobs {
  readonly #limits: JobLimits
  readonly #running = new Map<string, RunningJob>()
  /** The number of running jobs of each tenant, also of those that wait for their turn. */
  readonly #counts = new Map<string, number>()
  #closed = false
  readonly #shared = new Map<string, { readonly running: RunningJob; readonly queued: Promise<ImportJob> }>()
  /** Ended jobs whose end could not be stored. They are kept until the store has recovered. */
  readonly #unstored = new Map<string, { readonly core: Core; readonly ended: ImportJob }>()
  #recordsOf: FailureRecords = () => Promise.resolve({ put: [] })
  readonly #changed = createEmitter<Record<string, ImportJob>>()
  readonly #watched = createEmitter<Record<string, ImportJob>>()

  constructor(limits: JobLimits) {
    this.#limits = limits
  }

  /**
   * Fails the jobs of all tenants that an earlier process left unfinished. `recordsOf` returns records to
   * store with each of them. It is also used for a job whose end this engine could not store at once. Call
   * this once, at opening.
   */
  async failInterrupted(core: Core, recordsOf: FailureRecords): Promise<void> {
    this.#recordsOf = recordsOf
    core.fence.onChange(
      () => undefined,
      () => inBackground(core, this.#storeEnded()),
    )
    await this.failAbandoned(core)
  }

  /** Fails the unfinished jobs of engines that do not have the store open. */
  async failAbandoned(core: Core): Promise<void> {
    const prefix = keys.unfinishedJobs()
    for (let gte = prefix; ;) {
      const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: limits.pageSizeDefault })
      // In this order: an engine takes its lease before it starts a job.
      const live = found.length === 0 ? undefined : await core.store.shared?.liveEngines()
      for (const [unfinishedKey, value] of found) {
        gte = `${unfinishedKey}\0`
        const { jobKey, engineId } = runOf(value)
        if (engineId === undefined || live?.has(engineId) !== true)
          await this.#failAbandoned(core, unfinishedKey, jobKey)
      }
      if (found.length < limits.pageSizeDefault) return
    }
  }

  async #failAbandoned(core: Core, unfinishedKey: string, jobKey: string): Promise<void> {
    // The head is read first, so nothing is stored if another engine is first.
    const head = await headOf(core, keys.jobIdOf(jobKey))
    const json = await core.store.get(jobKey)
    const put: JobRecords['put'][number][] = []
    const heads = head === undefined ? [] : [head.next()]
    if (json !== undefined) {
      const job = importJobKind.parse(json)
      put.push([jobKey, failed(core, job, 'INTERRUPTED', 'the process that ran the job ended')])
      const failure = await this.#recordsOf(keys.tenantOfUnfinishedJob(unfinishedKey), job)
      put.push(...failure.put)
      heads.push(...(failure.heads ?? []))
    }
    const commit = { put, del: [unfinishedKey] }
    const isStored = await core.store.commit(heads.length === 0 ? commit : { ...commit, heads })
    if (isStored) core.log('warn', 'a job of an earlier process was interrupted')
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
          this.#watched.emit(running.tenantKey, job)
          return this.#run(core, running, { work, onResolved: unshare })
        },
        // The caller gets the error. The job may have been stored nevertheless.
        (error: unknown) =>
          this.#keepEnd(core, failed(core, running.job, jobCodeOf(error), messageOf(error))),
      )
      .finally(() => {
        for (const release of running.releases) release()
        unshare()
        leave()
        this.#running.delete(job.jobId)
        // All waiting calls have been notified of the end.
        this.#changed.all.delete(job.jobId)
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
    const unstored = this.#unstored.get(reference.jobId)
    return unstored?.core.tenantKey === core.tenantKey && unstored.ended.sourceId === reference.sourceId
      ? unstored.ended
      : undefined
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
    if (running !== undefined) await this.#follow(running, signal, onProgress)
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
    const { jobId } = running.job
    let wake = (): void => undefined
    const listen = (): void => wake()
    this.#changed.on(jobId, listen)
    signal?.addEventListener('abort', listen)
    try {
      for (let shownJob: ImportJob | undefined; ;) {
        signal?.throwIfAborted()
        const { job } = running
        if (job !== shownJob) {
          shownJob = job
          yield job
          if (hasEnded(job)) return
          continue
        }
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    } finally {
      this.#changed.off(jobId, listen)
      signal?.removeEventListener('abort', listen)
    }
  }

  /** Calls a listener with the job after each change of any job of the tenant. */
  on({ tenantKey, log }: Core, listener: (job: ImportJob) => void): () => void {
    const listen = (job: ImportJob): void => {
      try {
        listener(job)
      } catch (error) {
        log('warn', 'a job listener threw an error', { error: messageOf(error) })
      }
    }
    this.#watched.on(tenantKey, listen)
    return () => this.#watched.off(tenantKey, listen)
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
    }
    const job = await this.get(core, reference)
    if (core.sharing !== undefined && !hasEnded(job))
      throw sharedStore('the abort of a job that another engine runs', 'Abort it in that engine')
    return job
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

  /** Waits for the end of a job. A signal, or a listener that throws, ends the wait but not the job. */
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
      const abort = (): void => end(() => reject(signal?.reason))
      const end = (settle: () => void): void => {
        this.#changed.off(jobId, listen)
        signal?.removeEventListener('abort', abort)
        settle()
      }
      this.#changed.on(jobId, listen)
      signal?.addEventListener('abort', abort, { once: true })
      running.done.then(
        () => end(resolve),
        (error: unknown) => end(() => reject(error)),
      )
    })
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
        onProgress: (progress) => signal.aborted || this.#update(running, progress),
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
          this.#update(running, { state: ImportJobState.RUNNING, startedAt: nowOf(core) })
          const { head } = running
          const put = [[jobKey, running.job]] as const
          if (!(await core.store.commit(head === undefined ? { put } : { put, heads: [head.next()] })))
            throw takenOver()
        },
        onDone: async (result) => {
          const succeeded = await this.#storeResult(core, running, result)
          this.#update(running, succeeded)
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
        .catch(() => this.#keepEnd(core, ended))
      this.#update(running, ended)
      core.log('warn', 'a job failed', { ...reference, errorCode: code })
    } finally {
      clearTimeout(deadline)
      transfer.close()
      // The end of a job also ends all remaining work of third parties for it.
      running.abort.abort(new EngineError('IMPORT_FAILED', 'the job has ended'))
    }
  }

  /** Stores the result of a job with its success. On a shared store, another engine may have changed the source. */
  async #storeResult(core: Core, running: RunningJob, first: JobResult): Promise<ImportJob> {
    const { abort, head } = running
    const [jobKey, unfinishedKey] = keysOf(core, running.job)
    let result = first
    for (let run = 1; ; run++) {
      abort.signal.throwIfAborted()
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
      if ((await readHead(core.store, running.job.jobId)) !== before) throw takenOver()
      if (result.again === undefined || run === limits.sharedChangeRuns) throw takenOver()
      result = await result.again()
    }
  }

  #keepEnd(core: Core, ended: ImportJob): void {
    if (core.fence.closed) this.#unstored.set(ended.jobId, { core, ended })
  }

  /**
   * Stores the ends of jobs that could not be stored before. If the store already has an end for a job, that
   * end stays, because the success may have been stored although its commit seemed to fail.
   */
  async #storeEnded(): Promise<void> {
    for (const [jobId, { core, ended }] of this.#unstored) {
      const [jobKey, unfinishedKey] = keysOf(core, ended)
      const json = await core.store.get(jobKey)
      if (json !== undefined && !hasEnded(importJobKind.parse(json))) {
        const head = await headOf(core, jobId)
        const failure = await this.#recordsOf(core.tenantKey, ended)
        const put = [[jobKey, ended] as const, ...failure.put]
        const heads = head && { heads: [head.next(), ...(failure.heads ?? [])] }
        await core.store.commit({ put, del: [unfinishedKey], ...heads })
      }
      this.#unstored.delete(jobId)
    }
  }

  #update(running: RunningJob, change: Partial<ImportJob>): void {
    running.job = { ...running.job, ...change }
    this.#changed.emit(running.job.jobId, running.job)
    this.#watched.emit(running.tenantKey, running.job)
  }
}

/** Adds a call that shares the job. The job is aborted when all of its calls have aborted. */
function hold(running: RunningJob, signal: AbortSignal | undefined): void {
  running.holders++
  if (signal === undefined) return
  const follow = (): void => {
    if (--running.holders === 0) running.abort.abort(signal.reason)
  }
  signal.addEventListener('abort', follow, { once: true })
  running.releases.push(() => signal.removeEventListener('abort', follow))
}

/** Waits for some time. Rejects with the signal's reason. */
async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      release?.()
      settle()
    }
    const timer = setTimeout(() => end(resolve), ms)
    const release = signal && onAbort(signal, () => end(() => reject(signal.reason as Error)))
  })
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

/** The error of a job that another engine has ended, because the lease of this engine had expired. */
function takenOver(): EngineError {
  return new EngineError('IMPORT_FAILED', 'another engine ended the job, or kept changing its source')
}

function hasEnded({ state }: ImportJob): boolean {
  return state === ImportJobState.SUCCEEDED || state === ImportJobState.FAILED
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

function tooSlow(bytes: number, { minBytesPerSecond, windowMs }: JobLimits): string {
  return (
    `the source sends too slowly: ${bytes} bytes in ${windowMs / 1000} seconds of waiting; ` +
    `the option imports.minBytesPerSecond requires ${minBytesPerSecond} bytes a second`
  )
}

function jobCodeOf(error: unknown): string {
  return error instanceof EngineError ? (errorRegistry[error.reason].job ?? 'INTERNAL') : 'INTERNAL'
}

function jobNotFound({ sourceId, jobId }: JobReference): EngineError {
  return new EngineError('JOB_NOT_FOUND', `the source ${given(sourceId)} has no import job ${given(jobId)}`, {
    sourceId: shown(sourceId),
    jobId: shown(jobId),
  })
}
