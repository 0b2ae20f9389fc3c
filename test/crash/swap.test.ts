import { platform } from 'node:process'
import { expect, test } from 'vitest'
import { runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

// Elsewhere a swap is found only once it has happened.
test.runIf(platform === 'linux')(
  `what is swapped for symlinks leads nowhere else (FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async () => {
    const stdout = await runLoop('swap', '--n', String(runs(5000)), '--seed', String(seed))
    expect(stdout).toMatch(/^swap: [\d,]+ tries, [\d,]+ met a swap, 0 escapes$/m)
  },
)
