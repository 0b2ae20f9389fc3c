import { limits } from '../../base/limits.js'
import { importJobKind, type ImportJob } from '../../records/import-job.js'
import { runOf } from '../../records/unfinished-job.js'
import { inBackground, type Core } from '../../session/core.js'
import { headOf } from '../../session/sharing/head.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import type { JobReference } from './job-requests.js'
import { failed, hasEnded, keysOf, type FailurePut, type JobRecords } from './job-records.js'

/** Records to store together with the failure of a job. */
type FailureRecords = (tenantKey: string, job: ImportJob) => Promise<FailurePut>

/** Stores the ends of jobs whose process ended, or whose end could not be stored at once. */
export class InterruptedJobs {
  /** Ended jobs whose end could not be stored. They are kept until the store has recovered. */
  readonly #unstored = new Map<string, { readonly core: Core; readonly ended: ImportJob }>()
  #recordsOf: FailureRecords = () => Promise.resolve({ put: [] })

  /**
   * Fails the jobs of all tenants that an earlier process left unfinished. `recordsOf` returns records to
   * store with each of them. It is also used for a job whose end this engine could not store at once. Call
   * this once, at opening.
   */
  async recover(core: Core, recordsOf: FailureRecords): Promise<void> {
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
        if (engineId !== undefined && live?.has(engineId) === true) continue
        const tenantKey = keys.tenantOfUnfinishedJob(unfinishedKey)
        await this.#fail(core, [jobKey, unfinishedKey], tenantKey, 'the process that ran the job ended')
      }
      if (found.length < limits.pageSizeDefault) return
    }
  }

  /**
   * Fails a job that another engine runs. That engine can store no result any more, and stops the work when it looks for
   * jobs that were ended.
   */
  async abort(core: Core, reference: JobReference): Promise<void> {
    // Each attempt fails only after a step of the job, or another change of its source, was stored.
    while (!(await this.#fail(core, keysOf(core, reference), core.tenantKey, 'the job was aborted')));
  }

  /** Fails a job that has not ended. False: another engine was first, so that nothing was stored. */
  async #fail(
    core: Core,
    [jobKey, unfinishedKey]: readonly [string, string],
    tenantKey: string,
    message: string,
  ): Promise<boolean> {
    // The head is read first, so nothing is stored if another engine is first.
    const head = await headOf(core, keys.jobIdOf(jobKey))
    const json = await core.store.get(jobKey)
    const put: JobRecords['put'][number][] = []
    const heads = head === undefined ? [] : [head.next()]
    if (json !== undefined) {
      const job = importJobKind.parse(json)
      // Its engine stored the end, and was closed, before this engine read which engines are open.
      if (hasEnded(job)) return true
      put.push([jobKey, failed(core, job, 'INTERRUPTED', message)])
      const failure = await this.#recordsOf(tenantKey, job)
      put.push(...failure.put)
      heads.push(...(failure.heads ?? []))
    }
    const commit = { put, del: [unfinishedKey] }
    const isStored = await core.store.commit(heads.length === 0 ? commit : { ...commit, heads })
    if (isStored) core.log('warn', 'a job of another process was ended', { message })
    return isStored
  }

  /** A job whose end is not stored yet. */
  ended({ tenantKey }: Core, { sourceId, jobId }: JobReference): ImportJob | undefined {
    const unstored = this.#unstored.get(jobId)
    return unstored?.core.tenantKey === tenantKey && unstored.ended.sourceId === sourceId
      ? unstored.ended
      : undefined
  }

  /** Keeps the end of a job until the store has recovered. */
  keepEnd(core: Core, ended: ImportJob): void {
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
}
