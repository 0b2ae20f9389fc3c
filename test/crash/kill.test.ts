import { expect, test } from 'vitest'
import { runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

test.concurrent.each<[string, string, number]>([
  ['kill', 'relaxed', 6],
  ['kill', 'full', 3],
  ['services', 'relaxed', 3],
  ['services', 'full', 2],
  ['collect', 'relaxed', 4],
  ['collect', 'full', 2],
  ['versions', 'relaxed', 4],
  ['versions', 'full', 2],
])(
  `keeps acknowledged operations whole after kill -9 (%s, %s, FORKSPACE_SEED=${seed})`,
  async (loop, durability, kills) => {
    const args = ['--n', String(runs(kills)), '--seed', String(seed), '--durability', durability]
    const stdout = await runLoop(loop, ...args)
    expect(stdout).toMatch(
      /^kill: \d+ kills, [\d,]+ acknowledged, 0 lost, 0 torn, opened in \d+ ms, at most \d+ ms$/m,
    )
  },
)
