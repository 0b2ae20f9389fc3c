import { attempt } from '../../base/attempt.js'
import { createEmitter } from '../../base/emitter.js'
import { messageOf } from '../../base/errors.js'
import type { ImportJob } from '../../records/import-job.js'
import type { Core } from '../../session/core.js'
import type { WaitOptions } from './job-requests.js'
import { hasEnded } from './job-records.js'
import type { RunningJob } from './running-job.js'

/** Changes running jobs, and notifies those that follow them. */
export class JobWatches {
  readonly #changed = createEmitter<Record<string, ImportJob>>()
  readonly #watched = createEmitter<Record<string, ImportJob>>()

  update(running: RunningJob, change: Partial<ImportJob>): void {
    running.job = { ...running.job, ...change }
    this.#changed.emit(running.job.jobId, running.job)
    this.#watched.emit(running.tenantKey, running.job)
  }

  /** Notifies the listeners of the tenant that a job is queued. */
  queued({ tenantKey, job }: RunningJob): void {
    this.#watched.emit(tenantKey, job)
  }

  /** Call this when all waiting calls were notified of the end. */
  forget({ job }: RunningJob): void {
    this.#changed.all.delete(job.jobId)
  }

  /** Waits for the end of a job. A signal, or a listener that throws, ends the wait but not the job. */
  follow(
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

  /** Yields a running job now and after each change, until it has ended. A slow reader misses steps in between. */
  async *watch(
    running: RunningJob,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ImportJob, void, undefined> {
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
    const failed = (error: unknown): void =>
      log('warn', 'a job listener threw an error', { error: messageOf(error) })
    const listen = (job: ImportJob): void => attempt(() => listener(job), failed)
    this.#watched.on(tenantKey, listen)
    return () => this.#watched.off(tenantKey, listen)
  }
}
