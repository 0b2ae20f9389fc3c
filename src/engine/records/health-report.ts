import { isCount, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The values of a session's test status. */
export const HealthStatus = {
  /** The newest report has tests, and none of them failed. */
  PASSING: 'STATUS_PASSING',
  /** At least one test of the newest report failed. */
  FAILING: 'STATUS_FAILING',
  /** The session has no report yet, or its newest report has no tests. */
  UNKNOWN: 'STATUS_UNKNOWN',
} as const
/** One of the values of {@link HealthStatus}. */
export type HealthStatus = (typeof HealthStatus)[keyof typeof HealthStatus]

/** The test status of a session, from its newest test report. */
export interface Health {
  /** Whether the tests pass, fail, or are unknown. */
  readonly status: HealthStatus
  /** Number of passed tests. */
  readonly testsPassed: number
  /** Number of tests with a failure or an error. */
  readonly testsFailed: number
  /** Number of skipped tests. */
  readonly testsSkipped: number
  /** RFC 3339 time in UTC of the report; '' before the first report. */
  readonly lastUpdatedAt: string
}

/** One test report of a session. */
export interface HealthReport extends Health {
  /** The principal that sent the report. */
  readonly reportedBy: string
}

/** A stored report. `seq` is that of its event. */
export interface StoredReport extends HealthReport {
  readonly seq: number
}

export const healthReportKind = new RecordKind<StoredReport>({
  name: 'health report',
  prefix: keyPrefixes.healthReport,
  scope: 'session',
  bundle: { absent: 'a report is of the machine that ran the tests' },
  checks: {
    seq: isCount,
    status: isOneOf(HealthStatus),
    testsPassed: isCount,
    testsFailed: isCount,
    testsSkipped: isCount,
    lastUpdatedAt: isText,
    reportedBy: isText,
  },
})
