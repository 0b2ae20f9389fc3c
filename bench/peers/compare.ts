import type { Report } from './results.js'
import { ratioText } from './tables.js'

/**
 * Lists the rows whose ratio to the limit is higher than that of an earlier run by more than the tolerance. Times of
 * two runs are not compared, because the machine may differ.
 */
export function slower(now: Report, baseline: Report, tolerance: number): string[] {
  const before = ratiosOf(baseline)
  const lines: string[] = []
  for (const [name, ratio] of ratiosOf(now)) {
    const earlier = before.get(name)
    if (earlier === undefined || ratio <= earlier * tolerance) continue
    lines.push(`${name}: ${ratioText(ratio)} of the limit instead of ${ratioText(earlier)}`)
  }
  return lines
}

/** Only rows that both runs have are compared. */
function ratiosOf({ tables }: Report): Map<string, number> {
  const ratios = new Map<string, number>()
  for (const { scenario, title, rows } of tables) {
    for (const { contender, limit, toLimit } of rows)
      if (!limit && toLimit !== undefined) ratios.set(`${scenario}, ${title}, ${contender}`, toLimit)
  }
  return ratios
}

/** @throws {Error} if the text is not a report. */
export function parseReport(text: string, file: string): Report {
  let report: Partial<Report> | undefined
  try {
    report = JSON.parse(text) as Partial<Report>
  } catch {
    report = undefined
  }
  if (!Array.isArray(report?.tables)) throw new Error(`${file} is not a file of --save or --json`)
  return report as Report
}
