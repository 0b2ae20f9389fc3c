import { Buffer } from 'node:buffer'
import { formatTime } from '../base/environment.js'
import { invalid } from '../base/errors.js'
import { whenLoaded } from '../base/fault.js'
import { given, parseText, readBytes, tooLarge } from '../base/input.js'
import { Shape } from '../base/shape.js'
import { limits } from '../base/limits.js'
import {
  encodePageToken,
  pageShape,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../base/paging.js'
import { runInSlices } from '../base/cooperative.js'
import { inBackground, type Core } from '../session/core.js'
import { eventTypes } from '../records/event.js'
import type { LiveSession } from '../session/table/live.js'
import type { RecordChanges } from '../session/journal/journal.js'
import { roughly, SessionIndex } from '../session/table/session-index.js'
import { shownTime } from '../session/history/event-times.js'
import { eventTime, mutate, record } from '../session/mutation-queue.js'
import { encodeSeq, keys } from '../storage/keys.js'
import type { ReportReader, TestCounts } from './report-ports.js'
import {
  type Health,
  type HealthReport,
  healthReportKind,
  HealthStatus,
  type StoredReport,
} from '../records/health-report.js'

/** One page of the test reports of a session. */
export interface HealthReportPage {
  /** The reports of this page, oldest first. */
  readonly reports: HealthReport[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** The request of `session.health.report`. */
export interface HealthReportRequest {
  /** The format of the report: JUnit XML. */
  readonly reportFormat: 'junit-xml/v1'
  /** The report, at most 16 MiB. Bytes must be UTF-8. */
  readonly reportContent: Uint8Array | string
}

const unknown: Health = {
  status: HealthStatus.UNKNOWN,
  testsPassed: 0,
  testsFailed: 0,
  testsSkipped: 0,
  lastUpdatedAt: '',
}

/** The test results of sessions. Restores keep the reports. A fork starts without reports. */
export class HealthReports {
  readonly #reader: () => Promise<ReportReader>
  readonly #indexes = new SessionIndex<StoredReport[]>(
    keys.healthReports,
    () => [],
    (reports, json, _core, key) => reports.push(healthReportKind.parse(json, key)),
    { weigh: (reports) => reports.length * roughly.record },
  )
  /** The last report call of each session. Reports count in the order of the calls. */
  readonly #newest = new WeakMap<LiveSession, Promise<unknown>>()

  constructor(reader: () => Promise<ReportReader>) {
    this.#reader = reader
  }

  async get(core: Core, live: LiveSession): Promise<{ health: Health }> {
    const newest = (await whenLoaded(() => this.#indexes.get(core, live))).at(-1)
    return { health: newest === undefined ? { ...unknown } : describeHealth(live, newest) }
  }

  /** Stores a report. Other operations of the session can run while a long report is read. */
  report(core: Core, live: LiveSession, content: Uint8Array): Promise<{ newHealthStatus: Health }> {
    const stored = this.#report(core, live, content, this.#newest.get(live))
    this.#newest.set(live, stored)
    // Closing the engine waits for reports that are being read. The caller gets their result or error.
    inBackground(
      core,
      stored.then(
        () => undefined,
        () => undefined,
      ),
    )
    return stored
  }

  async #report(
    core: Core,
    live: LiveSession,
    content: Uint8Array,
    before: Promise<unknown> | undefined,
  ): Promise<{ newHealthStatus: Health }> {
    await before?.catch(() => undefined)
    const reader = await this.#reader()
    const counts = await runInSlices(reader.count(content), core.environment)
    return mutate(core, live, () => this.#store(core, live, counts))
  }

  #store(
    core: Core,
    live: LiveSession,
    { passed, failed, skipped }: TestCounts,
  ): Promise<{ newHealthStatus: Health }> {
    const reports = this.#indexes.get(core, live)
    const at = eventTime(core, live)
    const report: StoredReport = {
      status: statusOf(passed + failed + skipped, failed),
      testsPassed: passed,
      testsFailed: failed,
      testsSkipped: skipped,
      lastUpdatedAt: formatTime(at),
      reportedBy: core.principal,
      seq: live.seq + 1,
    }
    reports.push(report)
    const forgotten = reports.splice(0, reports.length - limits.healthReports)
    const committed = record(core, live, {
      type: eventTypes.reportHealth,
      details: { status: report.status },
      redo: [],
      at,
      ...core.journal.kept((): RecordChanges => ({
        put: [[keys.healthReport(live.id, report.seq), report]],
        del: forgotten.map(({ seq }) => keys.healthReport(live.id, seq)),
      })),
    })
    return committed.then(() => ({ newHealthStatus: describeHealth(live, report) }))
  }

  async history(core: Core, live: LiveSession, request: PageRequest): Promise<HealthReportPage> {
    const pageSize = parsePageSize(request.pageSize)
    const listing = `health ${live.id}`
    const after = parsePageToken(listing, request.pageToken)
    const all = await whenLoaded(() => this.#indexes.get(core, live))
    const rest = after === undefined ? all : all.filter(({ seq }) => encodeSeq(seq) > after)
    const page = rest.slice(0, pageSize)
    const last = page.at(-1)
    return {
      reports: page.map((one) => ({ ...describeHealth(live, one), reportedBy: one.reportedBy })),
      nextPageToken:
        last !== undefined && page.length < rest.length ? encodePageToken(listing, encodeSeq(last.seq)) : '',
    }
  }
}

function statusOf(tests: number, failed: number): HealthStatus {
  // Without tests, the status is neither passing nor failing.
  if (tests === 0) return HealthStatus.UNKNOWN
  return failed > 0 ? HealthStatus.FAILING : HealthStatus.PASSING
}

/** The time of a report is that of its event, and so is never after the time of a later report. */
function describeHealth({ record: session }: LiveSession, report: StoredReport): Health {
  const { status, testsPassed, testsFailed, testsSkipped, lastUpdatedAt, seq } = report
  const at = shownTime(session, seq, Date.parse(lastUpdatedAt))
  return { status, testsPassed, testsFailed, testsSkipped, lastUpdatedAt: formatTime(at) }
}

const reportShape = new Shape<HealthReportRequest>({ reportFormat: true, reportContent: true })

/** The bytes of a report, copied. */
export function parseHealthReport(request: HealthReportRequest): Uint8Array {
  const { reportFormat, reportContent } = reportShape.read(request)
  if (reportFormat !== 'junit-xml/v1')
    throw invalid('reportFormat', `must be 'junit-xml/v1'; it is ${given(reportFormat)}`)
  if (typeof reportContent === 'string')
    return Buffer.from(parseText('reportContent', reportContent, limits.reportBytes))
  const bytes = readBytes('reportContent', reportContent, 'must be a string or a Uint8Array')
  if (bytes.byteLength > limits.reportBytes) throw tooLarge('reportContent', 'bytes', limits.reportBytes)
  return new Uint8Array(bytes)
}

export function parseHealthHistory(request: PageRequest): PageRequest {
  return pageShape.read(request)
}
