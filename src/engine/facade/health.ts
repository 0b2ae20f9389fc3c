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

  /** @internal */
  constructor(access: SessionAccess, service: HealthReports) {
    this.#access = access
    this.#service = service
  }

  /**
   * The test status of the session: `STATUS_UNKNOWN` and zeros before the first report.
   *
   * @example
   * const { health } = await session.health.get()
   */
  get(): Promise<{
    /** The newest report: its status, counts and time. */
    health: Health
  }> {
    return this.#access.look('getHealth', (live) => this.#service.get(this.#access.core, live))
  }

  /**
   * Takes a report in the XML of JUnit. Only its `testcase` elements count, not totals in attributes. A test with a
   * `failure` or `error` child failed, else one with a `skipped` child was skipped, and all others passed. The status
   * is `STATUS_FAILING` when any test failed, else `STATUS_PASSING`; a report without tests is `STATUS_UNKNOWN`.
   *
   * Reports of a session count in the order of the calls. Other work goes on while one is read.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the report is not well-formed, not in UTF-8, nested over 256 elements
   * deep, not a JUnit report, or has a document type declaration. Nothing changed.
   * @throws {EngineError} TOO_LARGE when the report is over 16 MiB.
   *
   * @example
   * const reportContent = await readFile('junit.xml')
   * const { newHealthStatus } = await session.health.report({ reportFormat: 'junit-xml/v1', reportContent })
   */
  async report(request: HealthReportRequest): Promise<{
    /** The status and counts of this report. */
    newHealthStatus: Health
  }> {
    const content = parseHealthReport(request)
    return this.#access.run('reportHealth', (live) => this.#service.report(this.#access.core, live, content))
  }

  /**
   * The same as {@link report}.
   *
   * @example
   * const reportContent = '<testsuite><testcase name="a"/></testsuite>'
   * await session.health.testResults({ reportFormat: 'junit-xml/v1', reportContent })
   */
  testResults(request: HealthReportRequest): Promise<{
    /** The status and counts of this report. */
    newHealthStatus: Health
  }> {
    return this.report(request)
  }

  /**
   * A page of the reports, oldest first. The newest 1,000 are kept.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { reports } = await session.health.history({ pageSize: 10 })
   */
  async history(request: PageRequest = {}): Promise<HealthReportPage> {
    const page = parseHealthHistory(request)
    return this.#access.look('listHealthReports', (live) =>
      this.#service.history(this.#access.core, live, page),
    )
  }
}
