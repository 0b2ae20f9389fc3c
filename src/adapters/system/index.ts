import { randomFillSync } from 'node:crypto'
import { isAbsolute } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { Environment } from '../../engine/index.js'

/** The clocks and the random source of this machine. */
export const systemEnvironment: Environment = {
  wallClockMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  randomFill: (bytes) => void randomFillSync(bytes),
}

/** Whether a path is absolute on this machine. */
export const isAbsolutePath = isAbsolute
