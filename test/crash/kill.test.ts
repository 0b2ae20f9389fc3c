import { expect, test } from 'vitest'
import { isLong, runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

const loops: readonly (readonly [loop: string, durability: 'full' | 'relaxed', kills: number])[] = [
  ['kill', 'relaxed', 6],
]
const moreLoops: typeof loops = [
  ['kill', 'full', 3],
  ['collect', 'full', 2],
  ['services', 'full', 2],
  ['services', 'relaxed', 3],
  ['collect', 'relaxed', 4],
  ['versions', 'full', 2],
  ['versions', 'relaxed', 4],
]

test.concurrent.each(isLong ? [...loops, ...moreLoops] : loops)(
  `keeps acknowledged operations whole after kill -9 (%s, %s, FORKSPACE_SEED=${seed})`,
  async (loop, durability, kills) => {
    const args = ['--n', String(runs(kills)), '--seed', String(seed), '--durability', durability]
    const stdout = await runLoop(loop, ...args)
    expect(stdout).toMatch(
      /^kill: \d+ kills, [\d,]+ acknowledged, 0 lost, 0 torn, opened in \d+ ms, at most \d+ ms$/m,
    )
  },
)
