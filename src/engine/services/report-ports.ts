/** The port through which reports of tests are read. */
import type { Steps } from '../base/slices.js'

/** What a report says, test by test. */
export interface TestCounts {
  readonly passed: number
  /** Failures and errors. */
  readonly failed: number
  readonly skipped: number
}

/** Reads reports of one format. */
export interface ReportReader {
  /** Counts the tests of a report, in short steps. INVALID_ARGUMENT for what is no report of the format. */
  count(content: Uint8Array): Steps<TestCounts>
}
