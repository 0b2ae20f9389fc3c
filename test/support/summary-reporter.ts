import type { Reporter, SerializedError, TestModule, Vitest } from 'vitest/node'

/**
 * Prints `N passed, N failed` (and `, N skipped` if any) alone on the very last line of a run, and fails a run that
 * executed no test. A test file that does not load, a hook that fails outside a test, and an unhandled error each count
 * as one failure.
 */
export default class SummaryReporter implements Reporter {
  private passed = 0
  private failed = 0
  private skipped = 0

  onInit(vitest: Vitest): void {
    if (vitest.config.watch) return
    process.once('exit', () => {
      if (this.passed + this.failed === 0 || this.failed > 0) process.exitCode ||= 1
      process.stdout.write(`${this.line()}\n`)
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    this.passed = 0
    this.failed = unhandledErrors.length
    this.skipped = 0
    for (const module of modules) {
      this.failed += module.errors().length
      for (const suite of module.children.allSuites()) this.failed += suite.errors().length
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') this.passed++
        else if (state === 'failed') this.failed++
        else this.skipped++
      }
    }
  }

  private line(): string {
    const skipped = this.skipped > 0 ? `, ${this.skipped} skipped` : ''
    return `${this.passed} passed, ${this.failed} failed${skipped}`
  }
}
