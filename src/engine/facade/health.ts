import type { PageRequest } from '../base/paging.js'
import {
  parseHealthHistory,
  parseHealthReport,
  type HealthReportPage,
  type HealthReportRequest,
  type HealthReports,
} from '../services/health.js'
import type { Health } from '../records/health-report.js'
import type { SessionAccess } from '../session/access/session-access.js'

/** The test status of a session, from the newest report. */
export class SessionHealth {
  readonly #access: SessionAccess
  readonly #service: HealthReports

  constructor(access: SessionAccess, service: HealthReports) {
    this.#access = access
    this.#service = service
  }

  /** `STATUS_UNKNOWN` and zeros before the first report. */
  get(): Promise<{ health: Health }> {
    return this.#access.look('getHealth', (live) => this.#service.get(this.#access.core, live))
  }

  /**
   * Takes a report in the XML of JUnit. Only its `testcase` elements count, not totals in attributes. One with a
   * `failure` or `error` child has failed, else one with a `skipped` child was skipped, else it has passed.
   * `STATUS_FAILING` when any failed, else `STATUS_PASSING`; a report without any test is `STATUS_UNKNOWN`.
   *
   * Reports of a session count in the order of the calls; while one is read, everything else goes on.
   *
   * INVALID_ARGUMENT, with nothing changed, for a report that is not well-formed, not in UTF-8, nested over 256 elements
   * deep, no JUnit report, or has a document type declaration; TOO_LARGE for over 16 MiB.
   *
   * @example
   * const reportContent = await readFile('junit.xml')
   * const { newHealthStatus } = await session.health.report({ reportFormat: 'junit-xml/v1', reportContent })
   */
  async report(request: HealthReportRequest): Promise<{ newHealthStatus: Health }> {
    const content = parseHealthReport(request)
    return this.#access.run('reportHealth', (live) => this.#service.report(this.#access.core, live, content))
  }

  /** The same as {@link report}. */
  testResults(request: HealthReportRequest): Promise<{ newHealthStatus: Health }> {
    return this.report(request)
  }

  /** A page of the reports, oldest first; the newest 1,000 are kept. */
  async history(request: PageRequest = {}): Promise<HealthReportPage> {
    const page = parseHealthHistory(request)
    return this.#access.look('listHealthReports', (live) =>
      this.#service.history(this.#access.core, live, page),
    )
  }
}
