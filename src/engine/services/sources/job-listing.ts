import { TimeSlice } from '../../base/cooperative.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { Shape } from '../../base/shape.js'
import type { Core } from '../../session/core.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import { importJobKind, type ImportJob } from '../../records/import-job.js'

/** The request of `engine.sources.listJobs`. */
export interface JobListRequest extends PageRequest {
  /** The id of the source. */
  readonly sourceId: string
}

/** One page of the jobs of a source. */
export interface JobPage {
  /** The jobs of this page, the newest first. */
  readonly jobs: ImportJob[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

export const jobListShape = new Shape<JobListRequest>({ sourceId: true, ...pageNames })

/**
 * A page of the jobs of a source that exists. `current` returns the newest state of a job, because progress is not
 * stored.
 */
export async function listJobs(
  { store, tenantKey, environment }: Core,
  { sourceId, pageSize: size, pageToken }: JobListRequest,
  current: (stored: ImportJob) => ImportJob,
): Promise<JobPage> {
  const pageSize = parsePageSize(size)
  const gte = keys.jobs(tenantKey, sourceId)
  const before = parsePageToken('jobs', pageToken)
  const lt = before === undefined ? prefixEnd(gte) : `${gte}${before}`
  const found = await store.scan({ gte, lt, limit: pageSize + 1, reverse: true })
  const slice = new TimeSlice(environment)
  const jobs: ImportJob[] = []
  for (const [, json] of found.slice(0, pageSize)) {
    jobs.push(current(importJobKind.parse(json)))
    if (slice.over) await slice.next()
  }
  const last = found.length > pageSize ? jobs.at(-1) : undefined
  return { jobs, nextPageToken: last === undefined ? '' : encodePageToken('jobs', last.jobId) }
}
