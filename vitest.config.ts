import { availableParallelism } from 'node:os'
import { env } from 'node:process'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.js'
import { temporaryDirectory } from './test/support/temporary-directory.js'

/** Tests that `npm run test:long` runs with all of their random rounds; `npm test` runs a part of these. */
const withRounds = [
  'test/crash/*.test.ts',
  'test/model/*.test.ts',
  'test/unit/archives-hostile.test.ts',
  'test/unit/level-damage.test.ts',
  'test/unit/store-repair.test.ts',
]
/** Tests that only `npm run test:long` runs. */
const onlyLong = 'test/**/*.long.test.ts'

export default defineConfig(({ mode }) => ({
  test: {
    ...(mode === 'long'
      ? {
          include: [...withRounds, onlyLong],
          env: { FORKSPACE_TEST_SIZE: env['FORKSPACE_TEST_SIZE'] ?? '1' },
        }
      : { include: ['test/**/*.test.ts'], exclude: [onlyLong], env: { TMPDIR: temporaryDirectory() } }),
    environment: 'node',
    globalSetup: ['test/support/run-directory.ts'],
    pool: 'forks',
    // One more than there are cores: many tests wait for a disk, a child process or a clock.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 60_000,
    reporters: ['default', './test/support/summary-reporter.ts'],
  },
}))
