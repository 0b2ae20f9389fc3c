/** The port that reads test reports. */
import type { Steps } from '../base/cooperative.js'

/** The numbers of tests in a report. */
export interface TestCounts {
  readonly passed: number
  /** Failures and errors. */
  readonly failed: number
  readonly skipped: number
}

/** Reads reports of one format. */
export interface ReportReader {
  /**
   * Counts the tests of a report, in short steps.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the content does not have the format
   */
  count(content: Uint8Array): Steps<TestCounts>
}
