import { given } from '../../base/input.js'
import { invalid } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import type { JobLimits } from './jobs.js'

/**
 * The longest duration of imports, and the lowest speed of a source. An import that exceeds one of these
 * limits fails with `DEADLINE_EXCEEDED`.
 */
export interface ImportOptions {
  /** Seconds from the start of a job to its end; 6 hours by default, at most a week. */
  readonly deadlineSeconds?: number
  /**
   * Bytes that a remote or an upload must send for each second that the job waits for it; 1,024 by default, at most
   * 2^30. Progress messages do not count. 0 means no minimum.
   */
  readonly minBytesPerSecond?: number
  /** Seconds of waiting over which the rate is measured; 120 by default, at most an hour. */
  readonly rateWindowSeconds?: number
}

const importsShape = new Shape<ImportOptions>({
  deadlineSeconds: true,
  minBytesPerSecond: true,
  rateWindowSeconds: true,
})

/** @throws {EngineError} INVALID_ARGUMENT when an option is invalid */
export function parseImportOptions(options: ImportOptions = {}): JobLimits {
  const {
    deadlineSeconds = limits.importSeconds,
    minBytesPerSecond = limits.importBytesPerSecond,
    rateWindowSeconds = limits.importWindowSeconds,
  } = importsShape.readPart(options, 'imports')
  checkSeconds('deadlineSeconds', deadlineSeconds, limits.importSecondsMax)
  checkSeconds('rateWindowSeconds', rateWindowSeconds, limits.importWindowSecondsMax)
  if (
    typeof minBytesPerSecond !== 'number' ||
    !(minBytesPerSecond >= 0 && minBytesPerSecond <= limits.importBytesPerSecondMax)
  )
    throw invalid(
      'imports.minBytesPerSecond',
      `must be a number from 0 to ${limits.importBytesPerSecondMax}; it is ${given(minBytesPerSecond)}`,
    )
  return { deadlineMs: deadlineSeconds * 1000, minBytesPerSecond, windowMs: rateWindowSeconds * 1000 }
}

function checkSeconds(name: string, seconds: number, most: number): void {
  if (typeof seconds !== 'number' || !(seconds > 0 && seconds <= most))
    throw invalid(
      `imports.${name}`,
      `must be a number of seconds above 0, at most ${most}; it is ${given(seconds)}`,
    )
}
