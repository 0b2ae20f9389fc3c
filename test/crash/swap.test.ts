import { platform } from 'node:process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seed } from '../model/seed.js'
import { compileLoops, type CompiledLoops } from './compiled.js'

let loops: CompiledLoops

beforeAll(async () => {
  loops = await compileLoops()
})

afterAll(() => loops.remove())

// Elsewhere a swap is found only once it has happened.
test.runIf(platform === 'linux')(
  `what is swapped for symlinks leads nowhere else (FORKSPACE_SEED=${seed})`,
  async () => {
    const stdout = await loops.run('swap', '--n', '1500', '--seed', String(seed))
    expect(stdout).toMatch(/^swap: [\d,]+ tries, [\d,]+ met a swap, 0 escapes$/m)
  },
)
