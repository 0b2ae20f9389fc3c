import { platform } from 'node:process'
import { expect, test } from 'vitest'
import { runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

// On other systems a swap is only detected after it has happened.
test.runIf(platform === 'linux')(
  `never follows directories and files swapped for symlinks (FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async () => {
    const stdout = await runLoop('swap', '--n', String(runs(2500)), '--seed', String(seed))
    expect(stdout).toMatch(/^swap: [\d,]+ tries, [\d,]+ met a swap, 0 escapes$/m)
  },
)
