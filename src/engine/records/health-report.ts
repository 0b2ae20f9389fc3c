import { isCount, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

export const HealthStatus = {
  PASSING: 'STATUS_PASSING',
  FAILING: 'STATUS_FAILING',
  UNKNOWN: 'STATUS_UNKNOWN',
} as const
export type HealthStatus = (typeof HealthStatus)[keyof typeof HealthStatus]

/** The health of a session, by its newest report of tests. */
export interface Health {
  /** Failing when any test failed; unknown before the first report, and when a report had no test in it. */
  readonly status: HealthStatus
  readonly testsPassed: number
  /** Failures and errors. */
  readonly testsFailed: number
  readonly testsSkipped: number
  /** '' before the first report. */
  readonly lastUpdatedAt: string
}

/** One report of tests. */
export interface HealthReport extends Health {
  /** The principal. */
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
